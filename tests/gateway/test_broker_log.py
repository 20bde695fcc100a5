"""The gateway's lines about brokers: who came over which connection, who left, and why a connection is lost."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.connection import Connections
from namesrv_stream.gateway.connection_log import MAX_LINES, WINDOW_S, BrokerLog
from namesrv_stream.rules.record_types import DataVersion, RegisterBroker
from namesrv_stream.rules.rows import LiveRow
from tests.gateway.transport import connected

ADDRESS = "10.0.0.2:10911"
HEAD = RegisterBroker(cluster_name="c1", broker_name="broker-x", broker_id=0, broker_addr=ADDRESS)
LEASE = LiveRow(ADDRESS, "c1", "broker-x", 0, 0, 120_000, DataVersion(), "", 0)


class Timers:
    """An event loop's timers, which end when `end` says so."""

    def __init__(self):
        self.waiting = []

    def call_later(self, after_s, call):
        self.waiting.append((after_s, call))

    def end(self):
        due, self.waiting = self.waiting, []
        for _, call in due:
            call()


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "namesrv_stream")
    caplog.timers = Timers()
    caplog.brokers = BrokerLog(caplog.timers)
    with caplog.filtering(logging.Filter("namesrv_stream")):  # a Kafka client of another test may still be ending
        yield caplog


def run(scenario):
    async def in_loop():
        requests = SimpleNamespace(connection_lost=lambda connection: None)
        scenario(connected(requests, Connections(NamesrvSettings())))

    asyncio.run(in_loop())


def test_a_broker_is_named_when_it_comes_and_when_it_leaves_in_order(log):
    def scenario(connection):
        log.brokers.came(HEAD, connection)
        log.brokers.unregisters(ADDRESS, LEASE)

    run(scenario)
    assert log.messages == [
        "broker-x 0 (10.0.0.2:10911) registers over the connection of 127.0.0.1:5000",
        "broker-x 0 (10.0.0.2:10911) unregisters",
    ]
    assert {record.address for record in log.records} == {ADDRESS}


@pytest.mark.parametrize(
    ("error", "why"), [(None, "the peer closed it"), (ConnectionResetError("reset by peer"), "reset by peer")]
)
def test_a_lost_connection_names_its_broker_its_age_and_why_it_was_lost(log, error, why):
    def scenario(connection):
        connection.connection_lost(error)
        log.brokers.lost(ADDRESS, LEASE, connection)

    run(scenario)
    assert log.messages == [f"broker-x 0 (10.0.0.2:10911): connection lost after 0s: {why}"]


def test_a_mass_event_is_a_few_lines_and_a_count_and_the_next_window_begins_anew(log):
    def scenario(connection):
        for _ in range(10 * MAX_LINES):
            log.brokers.lost(ADDRESS, LEASE, connection)
        assert len(log.messages) == MAX_LINES
        assert [after_s for after_s, _ in log.timers.waiting] == [WINDOW_S]
        log.timers.end()
        assert log.messages[-1] == "180 more brokers came or went in 10 s; `namesrv-stream history` lists them"
        log.brokers.unregisters(ADDRESS, LEASE)
        assert log.messages[-1] == "broker-x 0 (10.0.0.2:10911) unregisters"
        log.timers.end()
        assert log.messages[-1] == "broker-x 0 (10.0.0.2:10911) unregisters"

    run(scenario)
