"""The record contract has two readers, the JVM's columns and msgspec's types: they accept the same records.

Both read one table of records: every field that the JVM reads, for every type but the commands, absent, null, of each
JSON type, and at the edges of its range or pattern. `MEANT` names each difference that is meant.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest
from msgspec.inspect import IntType, NoneType, StrType, UnionType

from namesrv_stream.errors import MalformedRecordError
from namesrv_stream.records import decode_record
from namesrv_stream.rules import requests
from namesrv_stream.rules.requests import MAX_HEARTBEAT_TIMEOUT_MS
from namesrv_stream.stream import source
from namesrv_stream.stream.source import ENVELOPE
from tests.stream.test_source import ADDRESS, kafka_records

OF_TYPE = {each.__struct_config__.tag: each for each in requests.Request.__args__}
NEEDED = {
    "REGISTER_BROKER": {"clusterName": "c1", "brokerName": "broker-a", "brokerId": 0, "brokerAddr": ADDRESS},
    "BROKER_HEARTBEAT": {"brokerAddr": ADDRESS},
    "UNREGISTER_BROKER": {"brokerAddr": ADDRESS},
    "CHANNEL_CLOSED": {"brokerAddr": ADDRESS, "channelId": "g/1"},
    "SCAN": {},
}
COLUMNS = dict(column.split() for column in ENVELOPE.split(",") if column != "type STRING")
"""Name -> type in Spark; all but `type`, which chooses the class."""

ABSENT = object()
OF_EACH_JSON_TYPE = [None, "", "x", "7", 0, 1, -1, 1.5, True, [], ["x"], {}, {"x": 1}]
EDGES = {
    "brokerAddr": [
        ADDRESS,
        "a:1",
        "a:",
        ":1",
        "a b:1",
        "a:1\n",
        "a:123456",
        "::1:1",
        "[::1]:1",
        "[]:1",
        "a" * 998 + ":1",
        "a" * 999 + ":1",
    ],
    "clusterName": ["x" * 1000, "x" * 1001],
    "brokerName": ["x" * 1000, "x" * 1001],
    "channelId": ["x" * 1000, "x" * 1001],
    "brokerId": [2**31, 2**63 - 1, 2**63, -(2**63), 1e3],
    "heartbeatTimeoutMillis": [MAX_HEARTBEAT_TIMEOUT_MS, MAX_HEARTBEAT_TIMEOUT_MS + 1, 2**63, 1e3],
}


class Said(NamedTuple):
    """One record of the table; `content` stands in `field`."""

    type: str
    field: str
    content: object

    @property
    def value(self) -> bytes:
        fields = {"type": self.type} | NEEDED[self.type] | {self.field: self.content}
        return json.dumps({name: each for name, each in fields.items() if each is not ABSENT}).encode()

    @property
    def key(self) -> bytes:
        """Return the address that the record names, so that the check of the key does not hide the others."""
        named = self.content if self.field == "brokerAddr" else NEEDED[self.type].get("brokerAddr", "")
        return named.encode() if isinstance(named, str) else b""


def records() -> Iterator[Said]:
    for type_ in NEEDED:
        for field in COLUMNS:
            yield Said(type_, field, ABSENT)
            yield from (Said(type_, field, content) for content in OF_EACH_JSON_TYPE + EDGES.get(field, []))


def accepted_by_types(said: Said) -> bool:
    try:
        decode_record(said.value)
    except MalformedRecordError:
        return False
    return True


@pytest.fixture(scope="module")
def accepted_by_jvm(spark):
    """Each record, and whether the JVM accepts it."""
    table = list(records())
    rows = source.parsed_records(kafka_records(spark, [(said.key, said.value) for said in table]))
    reasons = {row.offset: row.reason for row in rows.select("offset", "reason").collect()}
    return [(said, reasons[offset] is None) for offset, said in enumerate(table)]


def is_no_text(content: object) -> bool:
    return not isinstance(content, str)


def is_no_long(content: object) -> bool:
    return isinstance(content, bool) or not isinstance(content, int) or not -(2**63) <= content < 2**63


MEANT = {
    ("REGISTER_BROKER", "clusterName"): is_no_text,
    ("REGISTER_BROKER", "brokerName"): is_no_text,
    ("REGISTER_BROKER", "heartbeatTimeoutMillis"): is_no_long,
    ("REGISTER_BROKER", "channelId"): is_no_text,
    ("BROKER_HEARTBEAT", "channelId"): is_no_text,
    ("UNREGISTER_BROKER", "clusterName"): is_no_text,
    ("UNREGISTER_BROKER", "brokerName"): is_no_text,
    ("UNREGISTER_BROKER", "brokerId"): is_no_long,
    ("CHANNEL_CLOSED", "channelId"): is_no_text,
}
"""Records that the JVM alone accepts: it reads any JSON value as text, and a value that is no LONG as an absent one.

The driver decodes each registration by the types and rejects it then. Of a light record it uses what the JVM read.
"""


@pytest.mark.spark
def test_the_jvm_rejects_no_record_that_the_types_accept(accepted_by_jvm):
    assert [said for said, jvm in accepted_by_jvm if not jvm and accepted_by_types(said)] == []


@pytest.mark.spark
def test_the_jvm_alone_accepts_only_what_is_meant(accepted_by_jvm):
    by_jvm_alone = [said for said, jvm in accepted_by_jvm if jvm and not accepted_by_types(said)]
    unknown = [said for said in by_jvm_alone if not MEANT.get((said.type, said.field), lambda _: False)(said.content)]
    assert unknown == []
    assert {(said.type, said.field) for said in by_jvm_alone} == MEANT.keys(), "each difference that is named exists"


def test_both_know_the_same_types_of_records():
    assert {source.TICK, *source.BROKER_TYPES, *source.COMMAND_TYPES} == OF_TYPE.keys()
    assert {OF_TYPE[tag] for tag in source.BROKER_TYPES} == set(requests.BrokerRequest.__args__)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_of_the_envelope_has_the_type_of_its_field(column):
    """A field that may be absent is one that may be null."""
    wanted = {"STRING": StrType, "LONG": IntType}[COLUMNS[column]]
    kinds = {
        type(kind)
        for request in OF_TYPE.values()
        for field in msgspec.inspect.type_info(request).fields
        if field.encode_name == column and request.__struct_config__.tag in NEEDED
        for kind in (field.type.types if isinstance(field.type, UnionType) else (field.type,))
    }
    assert wanted in kinds
    assert kinds <= {wanted, NoneType}
