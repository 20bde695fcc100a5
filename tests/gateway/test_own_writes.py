"""A gateway reads its own writes (E12): a lookup waits until the snapshot has what this gateway has acknowledged."""

import asyncio
import json

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway import own_writes
from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.gateway.own_writes import OwnWrites, until_read
from namesrv_stream.records import decode_record
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import WipeWritePerm
from namesrv_stream.rules.rows import LogPosition, TopicRow
from namesrv_stream.wire.remoting_command import RemotingCommand
from tests.data import data

WRITES = data(__file__, "cases/own_writes.yaml")
PLACE = LogPosition(0, 0, 5)


def answers(offset=5):
    tables = RouteTables(queues={"OfA": [TopicRow("OfA", "a", 4, 4, 6, 0)]})
    return AnswerCache(tables, NamesrvSettings(), offsets={0: offset})


def lookup(code, **fields):
    return RemotingCommand(code=code, ext_fields=fields)


@pytest.mark.parametrize("write", WRITES, ids=json.dumps)
async def test_e12_a_lookup_of_an_unread_write_waits_until_a_snapshot_has_read_it(write):
    waiting, others = (
        [(lookup(code, **fields), connection) for code, fields, connection in write[kind]]
        for kind in ("waits", "does not")
    )
    own = OwnWrites(answers())
    if "topics" in write:
        own.registered(write["topics"], PLACE)
    else:
        own.commanded(decode_record(json.dumps(write["command"]).encode()), 1, PLACE)
    futures = [own.awaited(*each) for each in waiting]
    assert None not in futures
    assert [own.awaited(*each) for each in others] == [None] * len(others)
    own.follow(answers(offset=5))
    await asyncio.sleep(0)
    assert not any(each.done() for each in futures), "the snapshot has read up to the write, and not the write"
    own.follow(answers(offset=6))
    await asyncio.gather(*futures)
    assert [own.awaited(*each) for each in waiting] == [None] * len(waiting)


async def test_e12_each_lookup_of_an_unread_write_waits_up_to_the_limit(monkeypatch):
    """RocketMQ's proxy asks three times at once for the topic that it has made, and ends if it is not there."""

    monkeypatch.setattr(own_writes, "WAIT_LIMIT_S", 0.01)
    own = OwnWrites(answers())
    own.registered(["T"], PLACE)
    for _ in range(3):
        read = own.awaited(lookup(105, topic="T"), 1)
        await until_read(read)
        assert not read.done()
    own.follow(answers(offset=6))
    assert own.awaited(lookup(105, topic="T"), 1) is None


async def test_e12_nothing_waits_for_a_write_that_nobody_reads(monkeypatch):
    monkeypatch.setattr(own_writes, "UNREAD_LIMIT_S", 0.01)
    own = OwnWrites(answers())
    own.registered(["T"], PLACE)
    own.registered(["T"], LogPosition(0, 0, 7))
    await own.awaited(lookup(105, topic="T"), 1)
    assert own.awaited(lookup(105, topic="T"), 1) is None


async def test_e12_what_the_snapshot_has_read_is_not_waited_for():
    own = OwnWrites(answers(offset=6))
    own.registered(["T"], PLACE)
    own.commanded(WipeWritePerm(broker_name="b"), 1, PLACE)
    assert own.awaited(lookup(105, topic="T"), 1) is None
