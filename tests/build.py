"""Builders that tests of all kinds share: a registration, as a record and as a request, settings and a log."""

from benchmarks.peers import registration_of
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import DataVersion, RegisterBroker, TopicConfig
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.headers import RegisterBrokerHeader

ADDRESS = "10.0.0.1:10911"


def address(number):
    return f"10.0.0.{number}:10911"


def registration(broker_addr=ADDRESS, *, topics=(), counter=0, **fields):
    """The record of a master's registration; `topics` are names, or names with their settings."""
    own = {"cluster_name": "c1", "broker_name": "broker-a", "broker_id": 0, "data_version": DataVersion(0, 1, counter)}
    return RegisterBroker(broker_addr=broker_addr, topic_config_table=_table(topics), **(own | fields))


def register_request(
    broker_addr=ADDRESS, *, topics=(), counter=1, filter_servers=(), version=493, started_ms=7, **fields
):
    """The request by which a master registers, with its checksum."""
    own = {"cluster_name": "c", "broker_name": "a", "broker_id": 0}
    header = RegisterBrokerHeader(broker_addr=broker_addr, **(own | fields))
    return registration_of(
        header, _table(topics), counter, version=version, started_ms=started_ms, filter_servers=list(filter_servers)
    )


def settings_of(root, kafka, **more):
    """Settings with tables at `root`; two underscores stand for a dot in a name."""
    given = {"delta.root": root, "kafka.bootstrap.servers": kafka}
    return NamesrvSettings.model_validate(given | {name.replace("__", "."): value for name, value in more.items()})


def _table(topics):
    return dict(topics) if isinstance(topics, dict) else dict.fromkeys(topics, TopicConfig(8, 8, 6))


class Log:
    """Applies records to the rules at rising offsets, each a second after the one before."""

    def __init__(self, **settings):
        self.registry = RouteRegistry(NamesrvSettings(**settings))
        self.at_ms, self.offset = 0, 0

    def at(self):
        self.offset += 1
        self.at_ms += 1_000
        return LogPosition(self.at_ms, 0, self.offset)

    def apply(self, *requests):
        for request in requests:
            self.registry.apply(request, self.at())

    def register(self, broker_addr=ADDRESS, **fields):
        self.apply(registration(broker_addr, **fields))
