"""The name servers under trial: RocketMQ's own, and gateways with Kafka, the job and Delta tables behind them."""

from __future__ import annotations

import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from benchmarks.peers import Peer
from league.fence import settle
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.wire.codes import Version
from real_rocketmq.servers import LocalServer, Release, name_server

SERVERS = 2
"""Number of servers of a side. A broker that registers at one has sent nothing to the other."""

_V4_9_7 = 407
_SETTINGS = {"notifyMinBrokerIdChanged": "true"}


class Side(ABC):
    """One kind of name server, which runs within a `with`. Scenarios are played on it one after the other."""

    name: str
    version: int = Version.V5_4_0
    """The release of its brokers and clients, as in the version of their headers."""

    @property
    def is_4x(self) -> bool:
        """True if the side is of the 4.x line, which lacks the features of 5.0."""
        return self.version < Version.V5_0_0

    @abstractmethod
    def connect(self, server: int = 0) -> Peer:
        """Open a connection to one of its servers."""

    def settle(self, server: int = 0) -> None:
        """Return once all that was sent to this server before is in effect. Raises NotSettledError."""
        settle(self.name, lambda: self.connect(server), self.version)

    @abstractmethod
    def restart(self) -> None:
        """Stop and start all servers; their connections break."""

    @abstractmethod
    def away_without_memory(self) -> AbstractContextManager[None]:
        """Stop the process that decides about routes within the `with`.

        It starts again without the state that it kept for itself.
        """

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


class NameServers(Side):
    """RocketMQ's NameServer, one JVM a server. `folder` keeps its logs."""

    def __init__(self, folder: Path, release: Release = Release.V5, servers: int = SERVERS) -> None:
        self.name = "NameServer 4.9.7" if release is Release.V4 else "NameServer 5.4.0"
        self.version = _V4_9_7 if release is Release.V4 else Version.V5_4_0
        self._servers: list[LocalServer] = []
        for number in range(servers):
            data = folder / f"namesrv-{number}"
            self._servers.append(name_server(data, release, scanNotActiveBrokerInterval="500", **_SETTINGS))

    def connect(self, server: int = 0) -> Peer:
        """See `Side`."""
        return Peer(self._servers[server].port)

    def restart(self) -> None:
        """See `Side`."""
        with self.away_without_memory():
            pass

    @contextmanager
    def away_without_memory(self) -> Iterator[None]:
        """See `Side`. A NameServer keeps all its state in memory."""
        for server in self._servers:
            server.kill()
        yield
        for server in self._servers:
            server.start()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            for server in self._servers:
                server.start()
                opening.callback(server.kill)  # an orderly stop takes it three seconds
            self._open_things = opening.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open_things.__exit__(kind, error, at)


class Gateways(Side):
    """Gateways and the job, on a Kafka topic and tables of their own."""

    name = "gateway"

    def __init__(self, folder: Path, bootstrap_servers: str, spark: SparkSession, servers: int = SERVERS) -> None:
        self._spark = spark
        self._count = servers
        self._settings = NamesrvSettings.model_validate(
            {
                "delta.root": str(folder / "registry"),
                "kafka.bootstrap.servers": bootstrap_servers,
                "kafka.topic": f"league-{uuid.uuid4().hex[:12]}",
                "kvConfigPath": str(folder / "kvConfig.json"),
                "listenPort": "0",
                "triggerMillis": "200",
                **_SETTINGS,
            }
        )
        self._gateways: list[BackgroundGateway] = []
        self._open_gateways = ExitStack()
        self._open_job = ExitStack()

    def connect(self, server: int = 0) -> Peer:
        """See `Side`."""
        return Peer(self._gateways[server].gateway.port)

    def restart(self) -> None:
        """See `Side`. The job goes on, as it does when a gateway is restarted."""
        self._open_gateways.close()
        self._start_gateways()

    @contextmanager
    def away_without_memory(self) -> Iterator[None]:
        """See `Side`. The job keeps its state in the checkpoint."""
        self._open_job.close()
        yield
        shutil.rmtree(self._settings.checkpoint_location)
        self._start_job()

    def __enter__(self) -> Self:
        self._start_job()
        try:
            self._start_gateways()
        except BaseException:
            self._open_job.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._open_job, self._open_gateways:
            pass

    def _start_gateways(self) -> None:
        with ExitStack() as opening:
            self._gateways = [opening.enter_context(BackgroundGateway(self._settings)) for _ in range(self._count)]
            self._open_gateways = opening.pop_all()

    def _start_job(self) -> None:
        with ExitStack() as opening:
            opening.enter_context(BackgroundJob(self._spark, self._settings))
            self._open_job = opening.pop_all()
