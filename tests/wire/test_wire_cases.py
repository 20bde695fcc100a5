"""The cases in tests/wire/cases: bytes, and what they mean as JSON or the error by which they are refused.

Each line is a case. `bytes` are pieces: a text, [text, times], or {"hex": ...}. `of` names what reads them, a key of
READERS; all other fields but `rule`, `is` and `refused` are arguments of that reader. java.jsonl has values of odd
types in headers and registrations, headers that are no standard JSON, and what RocketMQ 5.4.0's own classes read there.
"""

import json
import struct
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.errors import NamesrvError
from namesrv_stream.records import encode_record
from namesrv_stream.wire.bodies import decode_properties, decode_queue_datas
from namesrv_stream.wire.codes import Version
from namesrv_stream.wire.frame import FrameDecoder, opening_of, proxy_header
from namesrv_stream.wire.json_text import with_quoted_keys
from namesrv_stream.wire.registration_request import RegisterBrokerBody, decode_registration
from namesrv_stream.wire.remoting_command import RemotingCommand, decode_command, split_opaque
from namesrv_stream.wire.write_requests import operator_command
from tests.wire.golden import broker_request
from tests.wire.recorded import CASES, bytes_of


def _frames(raw):
    return [{"body": each.body.decode()} | _said(each, RemotingCommand(code=0)) for each in FrameDecoder().feed(raw)]


def _registration(raw, version=493, inflated=None, compressed=False, only_quick=False):
    raw = raw if inflated is None else zlib.compress(bytes_of(inflated))
    read = decode_registration(raw, version, compressed=compressed or inflated is not None, only_quick=only_quick)
    wrapper, default = read.topic_config_serialize_wrapper, RegisterBrokerBody()
    return _said(wrapper, default.topic_config_serialize_wrapper) | _said(read, default)


def _said(read, default):
    """Return the fields that are not as in `default`."""
    before = msgspec.to_builtins(default)
    found = {name: value for name, value in msgspec.to_builtins(read).items() if value != before.get(name)}
    found.pop("topicConfigSerializeWrapper", None)
    return found


def _request(raw, code, fields=None, version=493, by=None):
    command = RemotingCommand(code=code, ext_fields=fields, body=raw, version=version)
    request = broker_request(command) if by is None else operator_command(command, by)
    return json.loads(encode_record(request))


def _header(raw):
    said = decode_command(struct.pack(">I", len(raw)) + raw)
    return said.code, said.language, said.version, said.flag, said.remark, said.ext_fields or {}


def _values(raw):
    """Return data version, counts and rights of topics, and filter servers of a registration."""
    said = decode_registration(raw, Version.V5_4_0)
    wrapper, topics = said.topic_config_serialize_wrapper, said.topic_config_serialize_wrapper.topic_config_table
    counts = {name: (each.read_queue_nums, each.write_queue_nums, each.perm) for name, each in topics.items()}
    return (wrapper.data_version.timestamp, wrapper.data_version.counter), counts, said.filter_server_list


def _opening(raw):
    found = opening_of(raw)
    return found and found.name


def _proxy_header(raw):
    """Return length and address, which no shorter piece of the header has."""
    found = proxy_header(raw + b"\0\0")
    assert not any(proxy_header(raw[:size]) for size in range(6, len(raw)))
    return found


def _split_opaque(raw):
    found = split_opaque(raw)
    return found and (found[0].decode(), found[1])


READERS = {
    "opaque": _split_opaque,
    "frames": _frames,
    "registration": _registration,
    "request": _request,
    "queue datas": lambda raw: msgspec.to_builtins(decode_queue_datas(raw)),
    "properties": decode_properties,
    "header": _header,
    "values": _values,
    "opening": _opening,
    "proxy header": _proxy_header,
    "quoted keys": lambda raw: with_quoted_keys(raw).decode(),
}


def read(case):
    arguments = {name: value for name, value in case.items() if name not in ("rule", "bytes", "of", "is", "refused")}
    return READERS[case["of"]](bytes_of(case.get("bytes", [])), **arguments)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["rule"].replace(" ", "-"))
def test_bytes_are_read_or_refused_as_the_case_has_it(case):
    if "is" in case:
        assert json.loads(json.dumps(read(case))) == case["is"]
        return
    with pytest.raises(NamesrvError, match=case["refused"]) as caught:
        read(case)
    assert str(caught.value).isprintable()


@given(st.binary(min_size=1, max_size=16))
def test_more_bytes_never_change_what_was_recognised(first):
    told = [opening_of(first[:size]) for size in range(1, len(first) + 1)]
    known = [opening for opening in told if opening is not None]
    assert len(set(known)) <= 1
    assert told == [None] * (len(told) - len(known)) + known
