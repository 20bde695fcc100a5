"""Readers that look on all the time, each in a thread: none may ever see a torn snapshot."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any, Self

from pyspark.sql import SparkSession

from benchmarks.peers import Peer
from chaos.oracle import Contents, contents
from namesrv_stream.analysis.views import open_snapshot
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.lookup import ClusterInfo
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.schemas import TOPIC
from namesrv_stream.wire import bodies
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand

_ANSWER_LIMIT_S = 10.0


class Onlooker(ABC):
    """Looks every `pause_s` within a `with`. What cannot be read at the moment is looked at again."""

    def __init__(self, pause_s: float) -> None:
        self.looks = 0
        self.seen: list[Any] = []
        """All that it has seen since somebody took it out; equal looks in a row are one."""
        self.bears_damage = False
        """True while tables are damaged: it looks again whatever goes wrong."""
        self._failure: Exception | None = None
        self._pause_s = pause_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    @abstractmethod
    def look(self) -> Any:
        """Return what there is to see."""

    def take(self) -> list[Any]:
        """Return what was seen since the last call. Raise what has ended the looking."""
        if self._failure is not None:
            raise self._failure
        seen, self.seen = self.seen, []
        return seen

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._look_on()
        except Exception as error:  # a thread has no caller that would see it
            self._failure = error

    def _look_on(self) -> None:
        last: Any = None
        while not self._stopped.wait(self._pause_s):
            try:
                found = self.look()
            except Exception as error:
                if self.bears_damage or isinstance(error, NamesrvError | OSError | EOFError):
                    continue  # no registry yet, or no gateway: that is another part's test
                raise
            self.looks += 1
            if found != last:
                last = found
                self.seen.append(found)


class ReaderOnlooker(Onlooker):
    """Follows the tables by Registry: (epoch, contents)."""

    def __init__(self, root: str) -> None:
        super().__init__(0.05)
        self._root = root
        self._reader: Registry | None = None

    def look(self) -> tuple[int, Contents]:
        """The newest snapshot, whole."""
        self._reader = self._reader or Registry(self._root)
        view = self._reader.follow()
        return view.snapshot.epoch, contents(view.routes)


class SparkOnlooker(Onlooker):
    """Asks Spark SQL, with the views pinned to one snapshot: (epoch, rows of topic, broker -> address, addresses)."""

    def __init__(self, root: str, spark: SparkSession) -> None:
        super().__init__(5.0)
        self._root = root
        self._spark = spark

    def look(self) -> tuple[int, list[Any], dict[tuple[str, int], str], list[str]]:
        """Read three tables of the newest snapshot by three queries."""
        snapshot = open_snapshot(self._spark, self._root)
        topics = sorted(rows_from_arrow(TOPIC, self._spark.table("topic").toArrow()))
        brokers = self._spark.sql("SELECT broker_name, broker_id, broker_addr FROM broker").collect()
        live = self._spark.sql("SELECT broker_addr FROM live").collect()
        holders = {(name, broker_id): address for name, broker_id, address in brokers}
        return snapshot.epoch, topics, holders, sorted(row[0] for row in live)


class GatewayOnlooker(Onlooker):
    """Asks the gateway for clusters and brokers, which come from two tables: the answer, in no order."""

    def __init__(self, port: int) -> None:
        super().__init__(0.05)
        self._port = port
        self._peer: Peer | None = None

    def look(self) -> tuple[Any, Any]:
        """One answer to GET_BROKER_CLUSTER_INFO."""
        try:
            answer = self._asked()
        except (OSError, EOFError):
            self._peer = None
            raise
        return comparable(bodies.decode_body(answer.body, ClusterInfo))

    def _asked(self) -> RemotingCommand:
        self._peer = self._peer or Peer(self._port, limit_s=_ANSWER_LIMIT_S)
        answer = self._peer.ask(RemotingCommand(code=RequestCode.GET_BROKER_CLUSTER_INFO))
        if answer.code != 0:
            raise EOFError  # it has answered that it is not ready
        return answer


def comparable(info: ClusterInfo) -> tuple[Any, Any]:
    """Brokers by name and sets of names by cluster."""
    clusters = {cluster: sorted(names) for cluster, names in info.cluster_addr_table.items()}
    return dict(info.broker_addr_table), clusters
