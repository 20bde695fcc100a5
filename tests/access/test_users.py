"""The sender of a request: its signer, or the holder of a certificate."""

import pytest

from namesrv_stream.access.users import Role, User, Users, is_within
from namesrv_stream.wire.remoting_command import RemotingCommand, signed

BARE = RemotingCommand(code=103, ext_fields={"brokerName": "a"})
SECRET = b"12345678"


def user(name, **known_by):
    return User(name=name, role=Role.READER, **known_by)


USERS = Users(
    [
        user("by key", access_key="k", secret_key=SECRET.decode()),
        user("by certificate", certificates=["DNS:broker-a", "URI:spiffe://x/a"]),
    ]
)


def name_of(command, *certificate_names):
    found = USERS.sender(command, frozenset(certificate_names)).user
    return found.name if found else None


@pytest.mark.parametrize(
    ("certificate_names", "name"),
    [
        ([], None),
        (["DNS:broker-a"], "by certificate"),
        (["DNS:other", "URI:spiffe://x/a"], "by certificate"),
        (["DNS:broker-b"], None),
        (["URI:broker-a"], None),
    ],
)
def test_an_unsigned_request_comes_from_the_holder_of_the_certificate(certificate_names, name):
    assert name_of(BARE, *certificate_names) == name


def test_a_signature_counts_before_a_certificate():
    assert name_of(signed(BARE, "k", SECRET), "DNS:broker-a") == "by key"


@pytest.mark.parametrize("command", [signed(BARE, "k", b"wrong key"), signed(BARE, "unknown", SECRET)])
def test_a_wrong_signature_is_nobodys_wherever_it_comes_from(command):
    sender = USERS.sender(command, frozenset({"DNS:broker-a"}))
    assert (sender.user, sender.reason) == (None, "its AccessKey is unknown, or its Signature is wrong")


def test_secrets_are_not_in_what_is_printed():
    assert "12345678" not in repr(user("by key", access_key="k", secret_key=SECRET.decode()))


@pytest.mark.parametrize(
    ("said", "pattern", "is_in"),
    [
        ("broker-a", "broker-a", True),
        ("broker-a", "broker-*", True),
        ("broker-", "broker-*", True),
        ("xbroker-a", "broker-*", False),
        ("broker-ab", "broker-a", False),
        ("broker-a\n", "broker-a", False),
        ("10x0.0.1:10911", "10.0.0.1:*", False),
        ("[::1]:10911", "[::1]:*", True),
        ("", "*", True),
        ("", "a", False),
    ],
)
def test_a_pattern_matches_the_whole_text_and_a_star_alone_is_special(said, pattern, is_in):
    assert is_within(said, [pattern]) == is_in
    assert is_within(said, ["no", pattern]) == is_in
    assert not is_within(said, [])
