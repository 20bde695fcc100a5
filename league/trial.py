"""The brokers, clients and operators with which a scenario is played, and names of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType, TracebackType
from typing import Any, Self

import msgspec

from benchmarks.peers import Peer
from league.broker import Broker, request
from league.errors import NotRightError
from league.fence import becomes
from league.listener import Listener
from league.sides import Side
from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.json_text import decode_json
from namesrv_stream.wire.remoting_command import RemotingCommand

Json = dict[str, Any]

_numbers = itertools.count(1)
_any_json = msgspec.json.Decoder()


class Trial:
    """One scenario on one side. Names and addresses are its own, so that no scenario sees another's brokers."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._number = next(_numbers)
        self._addresses = itertools.count(1)
        self._open_things = ExitStack()
        self._clients: dict[int, Peer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open_things.__exit__(kind, error, at)

    # --- names

    def named(self, word: str) -> str:
        """Return the word as a name of this trial's own."""
        return f"{word}-{self._number}"

    def topics(self, *words: str, perm: int = 6) -> dict[str, TopicConfig]:
        """Return topics of this trial's own, as a broker has them in its table."""
        return {self.named(word): TopicConfig(8, 8, perm) for word in words}

    def address(self) -> str:
        """Return an address that no other broker has."""
        number = next(self._addresses)
        return f"10.{self._number % 256}.{number // 256}.{number % 256}:10911"

    # --- who takes part

    def connect(self, server: int = 0) -> Peer:
        """Return a connection that is closed at the end of the trial, if not before."""
        line = self.side.connect(server)
        self._open_things.callback(line.close)
        return line

    def broker(self, name: str = "broker", broker_id: int = 0, *, server: int = 0, **more: Any) -> Broker:
        """Return a broker of this side's release, with a connection of its own. It has not registered yet."""
        given: dict[str, Any] = {
            "address": self.address(),
            "cluster": self.named("cluster"),
            "version": self.side.version,
        } | more
        return Broker(name=self.named(name), broker_id=broker_id, line=self.connect(server), **given)

    def listener(self) -> Listener:
        """Return the port of a broker; its address is for that broker."""
        return self._open_things.enter_context(Listener())

    def ask(
        self,
        code: int,
        body: bytes = b"",
        *,
        server: int = 0,
        version: int | None = None,
        fields: Mapping[str, str] = MappingProxyType({}),
    ) -> RemotingCommand:
        """Send a request of a client or an operator, over one connection to each server, and return the answer."""
        if server not in self._clients:
            self._clients[server] = self.connect(server)
        version = self.side.version if version is None else version
        return self._clients[server].ask(request(code, body, version=version, fields=fields))

    # --- what is seen

    def json(self, code: int) -> Json:
        """Return the body of an answer, whether its keys are in quotes or not."""
        answer = self.ask(code)
        if answer.code != ResponseCode.SUCCESS:
            raise NotRightError(f"the answer to {RequestCode(code).name}", f"code {answer.code}", "code 0")
        decoded: Json = decode_json(answer.body, _any_json, "an answer")
        return decoded

    def route(self, topic: str, *, server: int = 0, **fields: str) -> Json | None:
        """Return the route of a topic of this trial, None if it has none."""
        fields |= {"topic": self.named(topic)}
        answer = self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, server=server, fields=fields)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        decoded: Json = decode_json(answer.body, _any_json, "a route")
        return decoded

    def addresses(self, topic: str, *, server: int = 0, **fields: str) -> list[str]:
        """Return all broker addresses in the route of a topic, sorted."""
        route = self.route(topic, server=server, **fields) or {"brokerDatas": []}
        return sorted(address for group in route["brokerDatas"] for address in group["brokerAddrs"].values())

    def perms(self, topic: str) -> list[int]:
        """Return the permissions in the route of a topic."""
        route = self.route(topic) or {"queueDatas": []}
        return sorted(row["perm"] for row in route["queueDatas"])

    def routed(self, words: Iterable[str]) -> list[str]:
        """Return those of the topics that have a route."""
        return [word for word in words if self.route(word) is not None]

    def clusters(self) -> Json:
        """Return the part of the cluster info that belongs to this trial."""
        info = self.json(RequestCode.GET_BROKER_CLUSTER_INFO)
        own = f"-{self._number}"
        return {
            "clusters": {name: sorted(each) for name, each in info["clusterAddrTable"].items() if name.endswith(own)},
            "brokers": {name: each for name, each in info["brokerAddrTable"].items() if name.endswith(own)},
        }

    # --- what is right

    def settle(self, server: int = 0) -> None:
        """Return once all that was sent to this server before is in effect."""
        self.side.settle(server)

    def expect(self, what: str, seen: object, right: object) -> None:
        """Raise NotRightError unless `seen` is right."""
        if seen != right:
            raise NotRightError(what, seen, right)

    def await_right(self, what: str, see: Callable[[], object], right: object, limit_s: float) -> None:
        """Raise NotRightError unless the value becomes right within the limit."""
        if not becomes(lambda: see() == right, limit_s):
            raise NotRightError(f"{what} after {limit_s:g} s", see(), right)

    def hang_up(self) -> None:
        """Close the clients' connections, which do not work any more after a restart."""
        for line in self._clients.values():
            line.close()
        self._clients.clear()

    @contextmanager
    def setting(self, key: str, value: str, *, back: str) -> Iterator[None]:
        """Give all servers this setting within the `with`, by updateNamesrvConfig; afterwards set it to `back`."""
        self._set(key, value)
        try:
            yield
        finally:
            self._set(key, back)

    def _set(self, key: str, value: str) -> None:
        code = self.ask(RequestCode.UPDATE_NAMESRV_CONFIG, f"{key}={value}\n".encode()).code
        self.expect(f"the answer to {key}={value}", code, ResponseCode.SUCCESS)
        self.settle()
