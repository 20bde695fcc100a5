"""A broker that sends exactly the requests of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from benchmarks.peers import Peer, registration_of
from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.wire.codes import RequestCode, Version
from namesrv_stream.wire.headers import RegisterBrokerHeader
from namesrv_stream.wire.remoting_command import RemotingCommand

_STARTED_MS = 1_700_000_000_000


@dataclass
class Broker:
    """A broker of release `version`. Its registrations have `acting_master` and `timeout_ms` from 5.0 on."""

    name: str
    broker_id: int
    address: str
    cluster: str
    line: Peer
    version: int
    acting_master: bool = False
    timeout_ms: int | None = None
    zone: str | None = None
    counter: int = field(default=1)
    """The counter of the broker's data version; the scenario raises it when topics change."""

    def register(self, topics: Mapping[str, TopicConfig], *, compressed: bool = False) -> RemotingCommand:
        """Register with these topics."""
        return self.line.ask(self.registration(topics, compressed=compressed))

    def registration(self, topics: Mapping[str, TopicConfig], *, compressed: bool = False) -> RemotingCommand:
        """The request of `register`."""
        is_5x = self.version >= Version.V5_0_0
        header = RegisterBrokerHeader(
            broker_name=self.name,
            broker_addr=self.address,
            cluster_name=self.cluster,
            ha_server_addr=f"{self.address}1",
            broker_id=self.broker_id,
            compressed=compressed,
            heartbeat_timeout_millis=self.timeout_ms if is_5x else None,
            enable_acting_master=self.acting_master if is_5x else None,
            zone_name=self.zone,
        )
        return registration_of(header, topics, self.counter, version=self.version, started_ms=_STARTED_MS)

    def unregister(self) -> RemotingCommand:
        """Unregister, as at an orderly shutdown."""
        return self.line.ask(request(RequestCode.UNREGISTER_BROKER, version=self.version, fields=self._identity))

    def query_version(self) -> bool:
        """Ask whether to register, which a broker with forceRegister=false does first."""
        body = b'{"counter":%d,"stateVersion":0,"timestamp":%d}' % (self.counter, _STARTED_MS)
        code = RequestCode.QUERY_DATA_VERSION
        answer = self.line.ask(request(code, body, version=self.version, fields=self._identity))
        return (answer.ext_fields or {}).get("changed") == "true"

    def over(self, line: Peer) -> Broker:
        """Return the same broker over another connection."""
        return Broker(**(vars(self) | {"line": line}))

    @property
    def _identity(self) -> dict[str, str]:
        return {
            "brokerName": self.name,
            "brokerAddr": self.address,
            "clusterName": self.cluster,
            "brokerId": str(self.broker_id),
        }


def request(
    code: int, body: bytes = b"", *, version: int, fields: Mapping[str, str] = MappingProxyType({})
) -> RemotingCommand:
    """Return a request with these header fields."""
    return RemotingCommand(code=code, version=version, ext_fields=dict(fields) or None, body=body)
