"""The addresses for which a broker's user may send, and the settings that admins alone change.

The roles are tested over the wire.
"""

import json
from types import SimpleNamespace

import pytest

from namesrv_stream.access.rights import MAX_READ_BYTES, WRITING_CODES, NotAllowedError, check_right, check_settings
from namesrv_stream.access.users import Role, Sender, User
from namesrv_stream.gateway.writes import HANDLERS
from namesrv_stream.wire.remoting_command import RemotingCommand

OWN = {"clusterName": "c", "brokerName": "a", "brokerAddr": "10.0.0.1:10911", "brokerId": "0"}
BOUNDS = {"clusters": ["c"], "names": ["a", "a-*"], "addresses": ["10.0.0.1:*"]}
EVERYWHERE = {"clusters": ["*"], "names": ["a"], "addresses": ["*"]}
OF_BROKERS = [103, 104, 322, 904]


def broker(bounds=BOUNDS):
    return Sender(User(name="broker", role=Role.BROKER, **bounds))


def admin():
    return Sender(User(name="ann", role=Role.ADMIN))


def live(address, cluster, name):
    return {address: SimpleNamespace(cluster_name=cluster, broker_name=name)}


def missing(sender, command, leases=None):
    """The right that the sender lacks, None if it lacks none."""
    try:
        check_right("writes", command, sender, leases or {})
    except NotAllowedError as error:
        return error.missing
    return None


def test_every_request_that_can_change_something_needs_a_right():
    assert set(HANDLERS) == WRITING_CODES


@pytest.mark.parametrize("code", OF_BROKERS)
@pytest.mark.parametrize(
    ("changed", "right"),
    [
        ({}, None),
        ({"brokerName": "a-1"}, None),
        ({"brokerAddr": "10.0.0.1:1"}, None),
        ({"brokerId": "1"}, None),
        ({"clusterName": "d"}, "the right to cluster 'd'"),
        ({"brokerName": "b"}, "the right to broker name 'b'"),
        ({"brokerName": "A"}, "the right to broker name 'A'"),
        ({"brokerAddr": "10.0.0.11:10911"}, "the right to broker address '10.0.0.11:10911'"),
        ({"brokerName": None}, "the right to broker name ''"),
    ],
)
def test_a_broker_speaks_within_its_bounds(code, changed, right):
    fields = {name: said for name, said in (OWN | changed).items() if said is not None}
    assert missing(broker(), RemotingCommand(code=code, ext_fields=fields)) == right


def test_a_made_up_name_is_shown_escaped_and_in_part():
    right = missing(broker(), RemotingCommand(code=103, ext_fields=OWN | {"brokerName": "\x1b\n" + "x" * 100_000}))
    assert right.startswith(r"the right to broker name '\x1b\nxxx")
    assert len(right) < 200


@pytest.mark.parametrize("code", OF_BROKERS)
def test_an_address_that_another_broker_holds_is_that_brokers(code):
    """An address is one process: to register it under a name of one's own would take the other's route away."""
    command = RemotingCommand(code=code, ext_fields=OWN)
    address = OWN["brokerAddr"]
    assert missing(broker(EVERYWHERE), command) is None
    assert missing(broker(EVERYWHERE), command, live(address, "c", "a")) is None
    assert missing(broker(EVERYWHERE), command, live(address, "c", "b")) == "the right to broker name 'b'"
    assert missing(broker(BOUNDS), command, live(address, "d", "a")) == "the right to cluster 'd'"


@pytest.mark.parametrize(
    ("names", "right"), [([], None), (["a", "a-1"], None), (["a", "b"], "the right to broker name 'b'")]
)
def test_a_broker_registers_topics_of_its_names_alone(names, right):
    queues = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    body = json.dumps({"queueDatas": [queues | {"brokerName": name} for name in names]}).encode()
    command = RemotingCommand(code=217, ext_fields={"topic": "T"}, body=body)
    assert missing(broker(), command) == right
    assert missing(admin(), command) is None


def test_a_topic_that_cannot_be_read_changes_nothing_and_is_left_to_its_answer():
    assert missing(broker(), RemotingCommand(code=217, ext_fields={"topic": "T"}, body=b"{]")) is None


def test_a_body_that_decides_is_read_up_to_a_limit():
    large = RemotingCommand(code=217, ext_fields={"topic": "T"}, body=b"{}".ljust(MAX_READ_BYTES + 1))
    assert missing(broker(), large) == f"the admin role, for a body of over {MAX_READ_BYTES} bytes"
    assert missing(admin(), large) is None


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (b"orderMessageEnable=true", None),
        (b"", None),
        (b"\xff", None),
        (b"needWaitForService=true", "the admin role, for needWaitForService"),
        (b"needWaitForServic\\u0065: true", "the admin role, for needWaitForService"),
        (b"waitSecondsForService=99999", "the admin role, for waitSecondsForService"),
        (
            b"needWaitForService=true\ndeleteTopicWithBrokerRegistration=true",
            "the admin role, for deleteTopicWithBrokerRegistration, needWaitForService",
        ),
        (b"#".ljust(MAX_READ_BYTES + 1), f"the admin role, for a body of over {MAX_READ_BYTES} bytes"),
    ],
)
@pytest.mark.parametrize(
    "sender", [Sender(None, "it is not signed"), Sender(User(name="r", role=Role.READER)), broker()]
)
def test_settings_that_stop_lookups_are_for_admins(body, right, sender):
    command = RemotingCommand(code=318, body=body)
    check_settings(command, admin())
    if right is None:
        check_settings(command, sender)
        return
    with pytest.raises(NotAllowedError) as error:
        check_settings(command, sender)
    assert error.value.missing == right


def test_a_refusal_names_the_user_the_missing_right_and_the_next_step():
    with pytest.raises(NotAllowedError) as error:
        check_right("operators", RemotingCommand(code=205), broker(), {})
    assert (error.value.request, error.value.user) == ("WIPE_WRITE_PERM_OF_BROKER", "broker")
    assert str(error.value).startswith(
        "WIPE_WRITE_PERM_OF_BROKER needs the admin role: user broker has the broker role. Send it with the keys"
    )
