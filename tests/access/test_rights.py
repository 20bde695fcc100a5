"""The cases in tests/access/rights.yaml: the addresses for which a broker's user may send, and what is an admin's.

Cases stand under their rule. One without a `code` holds for each request of brokers; `fields` are those that differ
from OWN, `held_by` is the broker that has the address, `lacks` the right that its sender lacks. The roles are tested
over the wire.
"""

from types import SimpleNamespace

import pytest

from namesrv_stream.access.rights import MAX_READ_BYTES, WRITING_CODES, NotAllowedError, check_right, check_settings
from namesrv_stream.access.users import Role, Sender, User
from namesrv_stream.gateway.writes import HANDLERS
from namesrv_stream.wire.remoting_command import RemotingCommand
from tests.data import data, params, require_known

CASES = params(data(__file__, "rights.yaml"))
OWN = {"clusterName": "c", "brokerName": "a", "brokerAddr": "10.0.0.1:10911", "brokerId": "0", "topic": "T"}
OF_BROKERS = [103, 104, 322, 904]
QUEUES = '"readQueueNums":1,"writeQueueNums":1,"perm":6'
BROKER = User(name="broker", role=Role.BROKER, clusters=["c"], names=["a", "a-*"], addresses=["10.0.0.1:*"])
SENDERS = {
    "a broker": Sender(BROKER),
    "a broker of all addresses": Sender(
        User(name="broker", role=Role.BROKER, clusters=["*"], names=["a"], addresses=["*"])
    ),
    "an admin": Sender(User(name="ann", role=Role.ADMIN)),
    "a reader": Sender(User(name="r", role=Role.READER)),
    "nobody": Sender(None, "it is not signed"),
}


def refusal(sender, command, leases=None):
    try:
        check_right("writes", command, sender, leases or {}) if command.code != 318 else check_settings(command, sender)
    except NotAllowedError as error:
        return error
    return None


def test_every_request_that_can_change_something_needs_a_right():
    assert set(HANDLERS) == WRITING_CODES


@pytest.mark.parametrize("case", CASES)
def test_each_sender_has_the_right_or_lacks_it_as_the_case_has_it(case):
    require_known(case, "code sender fields body is_long held_by lacks")
    fields = {name: said for name, said in (OWN | case.get("fields", {})).items() if said is not None}
    body = case.get("body", "").replace("QUEUES", QUEUES).encode("latin-1")
    if case.get("is_long"):
        body = body.ljust(MAX_READ_BYTES + 1)
    leases = {}
    if "held_by" in case:
        cluster, name = case["held_by"]
        leases[OWN["brokerAddr"]] = SimpleNamespace(cluster_name=cluster, broker_name=name)
    for code in [case["code"]] if "code" in case else OF_BROKERS:
        command = RemotingCommand(code=code, ext_fields=fields, body=body)
        refused = refusal(SENDERS[case.get("sender", "a broker")], command, leases)
        assert (refused and refused.missing) == case.get("lacks"), code


def test_a_made_up_name_is_shown_escaped_and_in_part():
    command = RemotingCommand(code=103, ext_fields=OWN | {"brokerName": "\x1b\n" + "x" * 100_000})
    right = refusal(SENDERS["a broker"], command).missing
    assert right.startswith(r"the right to broker name '\x1b\nxxx")
    assert len(right) < 200


def test_a_refusal_names_the_user_the_missing_right_and_the_next_step():
    refused = refusal(SENDERS["a broker"], RemotingCommand(code=205))
    assert (refused.request, refused.user) == ("WIPE_WRITE_PERM_OF_BROKER", "broker")
    assert str(refused).startswith(
        "WIPE_WRITE_PERM_OF_BROKER needs the admin role: user broker has the broker role. Send it with the keys"
    )
