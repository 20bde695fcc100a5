"""E10 with Kafka, the job and two gateways: the tables are those of rules to which each registration comes in full."""

import random
from contextlib import ExitStack

import pytest

from chaos.oracle import contents
from namesrv_stream.gateway.background_gateway import BackgroundGateway
from namesrv_stream.rules.record_types import ChannelClosed, RegisterBroker
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.write_requests import operator_command, register_broker, unregister_broker
from tests.gateway.peer import Peer
from tests.system.gateway_stack import eventually, running_stack, until
from tests.system.test_gateway_writes import registration
from tests.system.test_kafka_topic import records

pytestmark = [pytest.mark.system, pytest.mark.spark]

NAMES = {"10.0.0.1:1": "a", "10.0.0.2:1": "a", "10.0.0.3:1": "a", "10.0.0.4:1": "b"}
TOPICS = "ABCD"
ROUNDS = 25
AN_HOUR_MS = 3_600_000


class Site:
    """Two gateways on one registry, the brokers' connections to them, and rules that thin nothing."""

    def __init__(self, stack, gateways, chance):
        self.stack, self.gateways, self.chance = stack, gateways, chance
        self.rules = RouteRegistry(stack.settings)
        self.peers = {}
        self.said = {}
        self.has_spoken = set()
        self.applied = self.registrations = 0

    def peer(self, number, address):
        if (number, address) not in self.peers:
            self.peers[number, address] = Peer(self.gateways[number].gateway.port)
        return self.peers[number, address]

    def apply(self, request):
        self.rules.apply(request, LogPosition(1_700_000_000_000, 0, self.applied))
        self.applied += 1

    def register(self, number, parts):
        """Registers in parts (B7). The log has each, in full or light, once it is answered."""
        for said in parts:
            address = said.ext_fields["brokerAddr"]
            answer = self.peer(number, address).ask(said.code, said.body, **said.ext_fields)
            assert answer.code == 0, answer
            self.apply(register_broker(said, f"{number}/{address}"))
            self.registrations += 1
        self.has_spoken.add((number, address))
        self.said[address] = number, parts

    def say_something_new(self, number, address):
        chance = self.chance
        version = chance.randint(1, 3)
        changed = {
            "broker_addr": address,
            "broker_name": NAMES[address],  # a move while it is connected elsewhere is refused (D14)
            "broker_id": chance.choice([0, 0, 1]),
            "zone_name": chance.choice([None, "z"]),
            "enable_acting_master": chance.choice([None, True]),
            "heartbeat_timeout_millis": AN_HOUR_MS,
        }
        parts = [
            registration(version, tuple(chance.sample(TOPICS, 2)), **changed) for _ in range(chance.choice([1, 1, 2]))
        ]
        self.register(
            number, [RemotingCommand(code=RequestCode.REGISTER_BROKER, ext_fields=f, body=b) for b, f in parts]
        )

    def leave(self, number, address):
        fields = {"brokerAddr": address, "brokerName": "x", "clusterName": "x", "brokerId": "0"}
        said = RemotingCommand(code=RequestCode.UNREGISTER_BROKER, ext_fields=fields)
        assert self.peer(number, address).ask(said.code, **fields).code == 0
        self.apply(unregister_broker(said))
        self.said.pop(address, None)

    def hang_up(self, number, address):
        if (number, address) not in self.peers:
            return
        before = self.closed()
        self.peers.pop((number, address)).reset()
        if (number, address) not in self.has_spoken:
            return
        self.has_spoken.discard((number, address))
        until(lambda: self.closed() > before)
        self.apply(ChannelClosed(broker_addr=address, channel_id=f"{number}/{address}"))
        if self.rules.lease(address) is None:
            self.said.pop(address, None)

    def closed(self):
        return sum(isinstance(each, ChannelClosed) for each in self.log())

    def log(self):
        kafka = {"bootstrap.servers": self.stack.settings.kafka_bootstrap_servers}
        return [request for *_, request in records(kafka, self.stack.settings.kafka_topic)]

    def command(self, number):
        code, fields = self.chance.choice(
            [(205, {"brokerName": "a"}), (327, {"brokerName": "b"}), (216, {"topic": "A"}), (216, {"topic": "B"})]
        )
        with Peer(self.gateways[number].gateway.port) as peer:
            assert peer.ask(code, **fields).code == 0
        self.apply(operator_command(RemotingCommand(code=code, ext_fields=fields)))

    def step(self):
        number, address = self.chance.randint(0, 1), self.chance.choice(list(NAMES))
        match self.chance.choice(["new", "new", "again", "again", "again", "leave", "hang up", "command"]):
            case "new":
                self.say_something_new(number, address)
            case "again" if address in self.said:
                self.register(number, self.said[address][1])
            case "leave":
                self.leave(number, address)
            case "hang up":
                self.hang_up(number, address)
            case "command":
                self.command(number)

    def catch_up(self):
        """Wait until the job has read the log and both gateways show it."""
        self.stack.job.process_all()
        newest = RouteReader(self.stack.settings.delta_root).snapshots.newest()
        until(lambda: all(each.gateway.epoch >= newest.epoch for each in self.gateways))

    def compare(self):
        view = RouteReader(self.stack.settings.delta_root).open()
        assert without_times(contents(view.routes)) == without_times(contents(self.rules.view()))


@eventually
def await_kafka(gateways):
    for each in gateways:
        assert each.gateway.metrics.registry.get_sample_value("namesrv_kafka_connected") == 1


def without_times(tables):
    live = {address: (*lease[1:4], *lease[5:8], len(lease.channels) > 0) for address, lease in tables["live"].items()}
    brokers = {
        name: {number: row._replace(registered_at=None) for number, row in holders.items()}
        for name, holders in tables["broker"].items()
    }
    return tables | {"live": live, "broker": brokers, "kv_config": None, "namesrv_config": None}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_e10_thinning_loses_nothing(kafka, spark, tmp_path, seed):
    with ExitStack() as things:
        stack = things.enter_context(running_stack(kafka, spark, tmp_path))
        gateways = [stack.gateway, things.enter_context(BackgroundGateway(stack.settings))]
        await_kafka(gateways)
        site = Site(stack, gateways, random.Random(seed))
        for _ in range(ROUNDS):
            site.step()
            site.catch_up()
            site.compare()
        for number, parts in list(site.said.values()):
            site.register(number, parts)
            site.catch_up()
        site.compare()
        in_full = sum(isinstance(each, RegisterBroker) for each in site.log())
        assert 0 < in_full < site.registrations, "some were light"
