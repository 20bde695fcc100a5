"""The log's lines about brokers: who came, went and changed, in one line each."""

import pytest

from namesrv_stream.answers.broker_lines import MAX_LINES, broker_lines
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import DataVersion, RegisterBroker, Scan, TopicConfig, WipeWritePerm
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition

A, B = "10.0.0.2:10911", "10.0.0.3:10911"


class Log:
    """A registry that is told what happens second by second; every lease lasts 1,000 s."""

    def __init__(self):
        self._registry = RouteRegistry(NamesrvSettings(tick_gap_millis=0))
        self._offset = 0
        self.apply(Scan(), 0)

    def apply(self, request, at_s):
        self._offset += 1
        self._registry.apply(request, LogPosition(1_000 * at_s, 0, self._offset))

    def register(self, address, at_s=0, name="broker-x", cluster="c1", **fields):
        fields = {"broker_id": 0, "heartbeat_timeout_millis": 1_000_000} | fields
        request = RegisterBroker(cluster_name=cluster, broker_name=name, broker_addr=address, **fields)
        self.apply(request, at_s)

    def end(self, kind, address, at_s):
        self._registry.end(address, kind, 1_000 * at_s, LogPosition(1_000 * at_s, 0, 9))

    def lines(self):
        return broker_lines(self._registry.take_changes().events)

    def texts(self):
        return [line.text for line in self.lines()]


@pytest.fixture
def log():
    return Log()


def test_a_broker_that_comes_is_named_with_its_cluster_and_neither_topics_nor_commands_have_a_line(log):
    log.register(A, topic_config_table={"T": TopicConfig(4, 4, 6)})
    log.apply(WipeWritePerm(broker_name="broker-x"), 1)
    assert log.texts() == ["broker-x 0 (10.0.0.2:10911) came: cluster c1"]


def test_a_broker_that_takes_an_id_names_its_former_holder(log):
    log.register(A, broker_id=0)
    log.texts()
    log.register(B, broker_id=0)
    assert "broker-x 0 (10.0.0.3:10911) came: cluster c1, in the place of 10.0.0.2:10911" in log.texts()


@pytest.mark.parametrize(
    ("kind", "said", "is_warning"),
    [("UNREGISTERED", "left: unregistered in order, after 2m 14s", False),
     ("CHANNEL_CLOSED", "left: lost its last connection, after 2m 14s", True)],
)  # fmt: skip
def test_a_broker_that_goes_is_named_with_the_reason_and_how_long_it_was_there(log, kind, said, is_warning):
    log.register(A)
    log.lines()
    log.end(kind, A, at_s=134)
    (line,) = log.lines()
    assert (line.text, line.is_warning) == (f"broker-x 0 (10.0.0.2:10911) {said}", is_warning)


def test_a_silent_broker_leaves_with_a_warning_that_has_its_silence(log):
    log.register(A)
    log.lines()
    log.register(A, at_s=500)
    log.apply(Scan(), 1_501)
    (line,) = log.lines()
    assert line.text == "broker-x 0 (10.0.0.2:10911) left: gave no sign of life for 16m 41s and expired, after 25m 1s"
    assert line.is_warning


def test_a_refused_broker_is_a_warning(log):
    log.register(A, data_version=DataVersion(state_version=2))
    log.lines()
    log.register(B, data_version=DataVersion(state_version=1))
    (line,) = log.lines()
    assert line.text == (
        "broker-x 0 (10.0.0.3:10911) was refused: the address that holds its id has a higher state version"
    )
    assert line.is_warning


def test_a_change_names_what_changed_and_a_new_data_version_alone_has_no_line(log):
    log.register(A)
    log.lines()
    log.register(A, at_s=1, data_version=DataVersion(counter=1))
    assert log.texts() == []
    log.register(A, at_s=2, data_version=DataVersion(counter=2), zone_name="z2", ha_server_addr="10.0.0.2:10912")
    assert log.texts() == [
        "broker-x 0 (10.0.0.2:10911) changed: its zone none to z2, its HA address none to 10.0.0.2:10912"
    ]


@pytest.mark.parametrize(("brokers", "lines"), [(MAX_LINES, MAX_LINES), (MAX_LINES + 1, MAX_LINES + 1), (900, 21)])
def test_a_mass_event_names_the_first_brokers_and_counts_the_others(log, brokers, lines):
    for number in range(brokers):
        log.register(f"10.0.0.1:{number}", name=f"broker-{number}")
    found = log.texts()
    assert len(found) == lines
    if brokers == 900:
        assert found[-1] == "880 more brokers came or left: 880 came; `namesrv-stream history` lists them"
