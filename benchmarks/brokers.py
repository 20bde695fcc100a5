"""Brokers that send exactly the records that a benchmark asks for."""

from __future__ import annotations

from concurrent.futures import Future

from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.rules.record_types import BrokerHeartbeat, DataVersion, RegisterBroker, TopicConfig
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.codes import Flag, RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

_ACKNOWLEDGED_WITHIN_S = 60.0


class Brokers:
    """`count` masters, each with a broker name of its own and `topics` topics, a fifth of them shared by all."""

    def __init__(self, producer: HeartbeatProducer, count: int, topics: int) -> None:
        self._producer = producer
        self._topics = topics
        self._versions = [0] * count

    def register_all(self) -> None:
        """Send a full registration of each; return when Kafka has them."""
        for number in range(len(self._versions)):
            self._producer.send(self._registration(number))
        self._producer.flush(_ACKNOWLEDGED_WITHIN_S)

    def heartbeat_all(self) -> None:
        """Send a light sign of life of each; return when Kafka has them."""
        for number in range(len(self._versions)):
            self.heartbeat(number)
        self._producer.flush(_ACKNOWLEDGED_WITHIN_S)

    def heartbeat(self, number: int) -> None:
        """Send a light sign of life of one; return at once."""
        self._producer.send(BrokerHeartbeat(broker_addr=_address(number)))

    def change(self, number: int) -> LogPosition:
        """Give one topic of one broker other queue counts under a new data version; return its position in Kafka."""
        return self.start_change(number).result(_ACKNOWLEDGED_WITHIN_S)

    def start_change(self, number: int) -> Future[LogPosition]:
        """Do the same, and return at once."""
        self._versions[number] += 1
        return self._producer.send(self._registration(number))

    def _registration(self, number: int) -> RegisterBroker:
        version = self._versions[number]
        shared = self._topics // 5
        names = [f"shared_{i}" if i < shared else f"topic_{number}_{i}" for i in range(self._topics)]
        table = dict.fromkeys(names, TopicConfig(8, 8, 6))
        table[names[-1]] = TopicConfig(8 + version, 8 + version, 6)
        return RegisterBroker(
            cluster_name=_cluster(number),
            broker_name=_name(number),
            broker_id=0,
            broker_addr=_address(number),
            ha_server_addr=_address(number),
            data_version=DataVersion(0, 1_700_000_000_000, version),
            topic_config_table=table,
        )


def heartbeat_frame(number: int) -> bytes:
    """Return the oneway BROKER_HEARTBEAT of one of the `Brokers` as a gateway receives it."""
    fields = {"brokerAddr": _address(number), "brokerName": _name(number), "clusterName": _cluster(number)}
    return encode_command(RemotingCommand(code=RequestCode.BROKER_HEARTBEAT, flag=Flag.ONEWAY, ext_fields=fields))


def _address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:10911"


def _name(number: int) -> str:
    return f"broker-{number}"


def _cluster(number: int) -> str:
    return f"cluster-{number % 4}"
