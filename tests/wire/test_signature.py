"""RocketMQ's signature: requests as real senders sign them, and every change that a signature has to notice."""

import msgspec
import pytest

from namesrv_stream.wire.remoting_command import (
    ACCESS_KEY,
    SIGNATURE,
    RemotingCommand,
    access_key_of,
    decode_command,
    encode_command,
    is_signed_with,
    signed,
)
from tests.wire.binary import encode_binary

SECRET = b"12345678"
PUT = {"namespace": "N", "key": "K", "value": "Vä", ACCESS_KEY: "rocketmq2", SIGNATURE: "dewjSnyZcU30S3X/jQZ/j68ljMw="}
SENT = {
    "mqadmin updateKvConfig, 5.4.0 and 4.9.7": RemotingCommand(code=100, ext_fields=PUT),
    "the same in a zone, which is added after the signature": RemotingCommand(
        code=100, ext_fields=PUT | {"__ZONE_MODE": "true", "__ZONE_NAME": "z1"}
    ),
    "mqadmin updateNamesrvConfig": RemotingCommand(
        code=318,
        ext_fields={ACCESS_KEY: "rocketmq2", SIGNATURE: "BUOEcXi0FEf8m3DT21xALagaf84="},
        body=b"orderMessageEnable=true\n",
    ),
    "a lookup of mqadmin 4.9.7": RemotingCommand(
        code=105,
        ext_fields={ACCESS_KEY: "rocketmq2", SIGNATURE: "/u5P/wZUbhjanu4LM/UzEdo2u2I=", "topic": "TBW102"},
    ),
}
"""Requests as captured from the real programs."""

ours = signed(RemotingCommand(code=103, ext_fields={"b": "2", "a": "1", "__ZONE_NAME": "z"}, body=b"body"), "k", SECRET)
"""A broker signs its zone too."""


@pytest.mark.parametrize("command", [*SENT.values(), ours], ids=[*SENT, "a broker in a zone"])
@pytest.mark.parametrize("encode", [encode_command, encode_binary])
def test_a_signature_is_known_in_both_forms_of_a_header(command, encode):
    frame = encode(command)
    assert is_signed_with(decode_command(frame[4:]), SECRET)


def test_we_sign_as_mqadmin_does():
    bare = {name: said for name, said in PUT.items() if name not in (ACCESS_KEY, SIGNATURE)}
    assert signed(RemotingCommand(code=100, ext_fields=bare), "rocketmq2", SECRET).ext_fields == PUT


@pytest.mark.parametrize(
    "change",
    [
        {"body": b"bodY"},
        {"body": b""},
        {"ext_fields": ours.ext_fields | {"a": "x"}},
        {"ext_fields": ours.ext_fields | {"c": "3"}},
        {"ext_fields": {name: said for name, said in ours.ext_fields.items() if name != "a"}},
        {"ext_fields": ours.ext_fields | {ACCESS_KEY: "other"}},
        {"ext_fields": ours.ext_fields | {"__ZONE_NAME": "other"}},
        {"ext_fields": ours.ext_fields | {SIGNATURE: ours.ext_fields[SIGNATURE][:-1]}},
        {"ext_fields": ours.ext_fields | {SIGNATURE: ""}},
        {"ext_fields": ours.ext_fields | {SIGNATURE: "ä"}},
        {"ext_fields": {name: said for name, said in ours.ext_fields.items() if name != SIGNATURE}},
        {"ext_fields": None},
    ],
)
def test_whatever_is_changed_the_signature_is_wrong(change):
    assert not is_signed_with(msgspec.structs.replace(ours, **change), SECRET)


def test_another_secret_makes_another_signature():
    assert not is_signed_with(ours, b"12345679")


@pytest.mark.parametrize(
    ("fields", "key"), [(None, None), ({}, None), ({ACCESS_KEY: ""}, ""), ({ACCESS_KEY: "k"}, "k")]
)
def test_a_request_names_its_key_or_is_not_signed(fields, key):
    assert access_key_of(RemotingCommand(code=100, ext_fields=fields)) == key
