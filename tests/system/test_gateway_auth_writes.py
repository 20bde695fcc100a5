"""The records of a gateway with auth.mode=writes: the requests of those who may write, with their names."""

import pytest

from namesrv_stream.gateway.background_gateway import BackgroundGateway
from namesrv_stream.rules.record_types import BrokerHeartbeat, ChannelClosed, PutKvConfig, RegisterBroker
from namesrv_stream.wire.codes import Flag, ResponseCode
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.signature import signed
from tests.gateway.peer import Peer
from tests.gateway.test_known_brokers import ADDRESS, command
from tests.system.gateway_stack import eventually
from tests.system.test_gateway_writes import Site

pytestmark = pytest.mark.system

SECRET = b"12345678"
USERS = "".join(
    f'[[user]]\nname = "{name}"\nrole = "{role}"\naccessKey = "{name}"\nsecretKey = "{SECRET.decode()}"\n{bounds}'
    for name, role, bounds in (
        ("ann", "admin", ""),
        ("user-a", "broker", 'clusters = ["c"]\nnames = ["a"]\naddresses = ["*"]\n'),
        ("user-b", "broker", 'clusters = ["c"]\nnames = ["b"]\naddresses = ["*"]\n'),
    )
)
OF_A = {"clusterName": "c", "brokerName": "a", "brokerAddr": ADDRESS, "brokerId": "0"}
HEARTBEAT, END = (RemotingCommand(code=code, ext_fields=OF_A) for code in (904, 104))


@pytest.fixture
def site(kafka, topic, tmp_path):
    """A registry in which `a` holds ADDRESS already."""
    file = tmp_path / "users.toml"
    file.touch(0o600)
    file.write_text(USERS)
    with Site(kafka, topic, tmp_path) as made:
        made.settings = made.settings.model_copy(update={"auth_mode": "writes", "auth_users_path": str(file)})
        made.registry.register(ADDRESS, "c", "a")
        yield made


@pytest.fixture
def connect(site):
    """Makes connections to a gateway that has its way to Kafka."""
    with BackgroundGateway(site.settings) as running:
        start = RemotingCommand(code=102, ext_fields={"namespace": "start", "key": "start"})
        with Peer(running.gateway.port) as peer:
            eventually(lambda: answered(peer, start, "ann", 0))()
        yield lambda: Peer(running.gateway.port)


def send(peer, said, user, flag=0):
    said = said if user is None else signed(said, user, SECRET)
    peer.send(said.code, said.body, flag, **said.ext_fields)
    return said


def answered(peer, said, user, code):
    send(peer, said, user)
    answer = peer.receive()
    assert answer.code == code, answer


def name_of(peer):
    return "{}:{}".format(*peer.socket.getsockname())


def test_a_stranger_neither_keeps_a_broker_alive_nor_ends_its_lease(site, connect):
    with connect() as own:
        with connect() as strange:
            answered(own, command(), "user-a", 0)
            for user in (None, "user-b"):
                for said in (HEARTBEAT, END, command(), command(broker_name="b")):
                    answered(strange, said, user, ResponseCode.NO_PERMISSION)
                send(strange, HEARTBEAT, user, Flag.ONEWAY)
            answered(strange, RemotingCommand(code=105, ext_fields={"topic": "TopicA"}), None, 0)
        answered(own, HEARTBEAT, "user-a", 0)
    said = site.await_records(RegisterBroker, BrokerHeartbeat, ChannelClosed)
    assert len({each.channel_id for each in said}) == 1, "all of them are of its own connection"


def test_records_name_the_user_and_the_peer_and_of_an_unchanged_registration_the_sender_counts(site, connect):
    with connect() as peer:
        answered(peer, command(), "user-a", 0)
        answered(peer, command(), "user-b", ResponseCode.NO_PERMISSION)
        answered(peer, command(), "user-a", 0)
        answered(peer, RemotingCommand(code=100, ext_fields={"namespace": "n", "key": "k", "value": "v"}), "ann", 0)
        registered, _light, put = site.await_records(RegisterBroker, BrokerHeartbeat, PutKvConfig)
        assert registered.requested_by == f"user-a@{name_of(peer)}"
        assert put.requested_by == f"ann@{name_of(peer)}"
