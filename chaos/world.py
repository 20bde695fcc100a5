"""A registry under churn: Kafka, a seeded fleet, jobs and a gateway in processes of their own, and onlookers."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeVar

from pyspark.sql import SparkSession
from tenacity import RetryError, Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from chaos.onlookers import GatewayOnlooker, Onlooker, ReaderOnlooker, SparkOnlooker
from chaos.verifier import Verifier
from namesrv_stream.config import NamesrvSettings, kafka_client_arguments, load_settings
from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, NotARegistryError
from namesrv_stream.kafka.producer import HeartbeatProducer, Ticker
from namesrv_stream.kafka.record_reader import LOG_PARTITION, RecordReader
from namesrv_stream.kafka.topic import end_offsets, ensure_topic
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tools.fleet.broker import ChurnKind, FleetPlan
from namesrv_stream.tools.fleet.player import Fleet
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.process import OwnedProcess, free_ports

log = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=Onlooker)

LEASE_MS = 10_000
LIMIT_S = 300.0
"""For anything to happen: the machine may be busy."""


_CLI = "from namesrv_stream.cli import main; main()"


class NothingHappenedError(NamesrvError):
    """An expected condition was not met within the limit."""

    def __init__(self, what: str, folder: Path) -> None:
        super().__init__(f"{what}: not within {LIMIT_S:.0f} s. The logs in {folder} show what each process did.")


def plan(seed: int) -> FleetPlan:
    """Twelve brokers with short leases; every few seconds one of them crashes, flaps, moves or is promoted."""
    churn = dict.fromkeys((ChurnKind.CRASH, ChurnKind.RESTART, ChurnKind.FLAP, ChurnKind.PROMOTE, ChurnKind.MOVE), 3.0)
    return FleetPlan(
        brokers=12, clusters=2, topics=40, period_ms=10_000, startup_ms=3_000, heartbeat_interval_ms=1_000,
        heartbeat_timeout_ms=LEASE_MS, acting_master=True, churn=churn | {ChurnKind.CREATE_TOPIC: 12.0}, seed=seed,
    )  # fmt: skip


class World:
    """All of it within a `with`. `folder` keeps the logs."""

    def __init__(self, folder: Path, seed: int, spark: SparkSession | None = None) -> None:
        self.folder = folder
        self.kafka = LocalKafka(folder / "kafka")
        self.port = free_ports(1)
        self.onlookers: list[Onlooker] = []
        self._seed = seed
        self._spark = spark
        self._open = ExitStack()
        self._started = 0
        self._logs: dict[int, Path] = {}
        self._file = folder / "namesrv.properties"
        self._file.write_text(
            f"kafka.bootstrap.servers={self.kafka.bootstrap_servers}\nkafka.topic=chaos\n"
            f"delta.root={folder / 'registry'}\nlistenPort={self.port}\ntriggerMillis=200\n"
        )
        self.settings: NamesrvSettings = load_settings(self._file, {}, {})

    def __enter__(self) -> Self:
        with self._open:
            self._open.enter_context(self.kafka)
            kafka = kafka_client_arguments(self.settings)
            ensure_topic(kafka, self.settings.kafka_topic)
            self.verifier = Verifier(
                self.settings, self._open.enter_context(RecordReader(kafka, self.settings.kafka_topic))
            )
            producer = self._open.enter_context(HeartbeatProducer(kafka, self.settings.kafka_topic))
            self._open.enter_context(Ticker(producer))
            fleet = Fleet(plan(self._seed), producer)
            fleet.start()
            self._open.callback(fleet.stop, unregister=False)
            self.reader = self._look(ReaderOnlooker(self.settings.delta_root))
            self.asker = self._look(GatewayOnlooker(self.port))
            self.sql = self._look(SparkOnlooker(self.settings.delta_root, self._spark)) if self._spark else None
            self.gateway = self.start_gateway()
            self._open = self._open.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _look(self, onlooker: Kind) -> Kind:
        self._open.enter_context(onlooker)
        self.onlookers.append(onlooker)
        return onlooker

    def start_job(self, *options: str) -> OwnedProcess:
        """Start a job; it is killed at the end of the world if it still runs."""
        return self._start("job", "-m", "chaos.job", str(self._file), *options)

    def start_gateway(self) -> OwnedProcess:
        """Start a gateway at `port`. One runs from the beginning."""
        self.gateway = self.command("gateway")
        return self.gateway

    def command(self, name: str, *options: str) -> OwnedProcess:
        """Start a command of namesrv-stream with the settings of this world."""
        return self._start(name, "-c", _CLI, name, "-c", str(self._file), *options)

    def _start(self, name: str, *arguments: str) -> OwnedProcess:
        self._started += 1
        path = self.folder / f"{name}-{self._started}.log"
        process = OwnedProcess([sys.executable, *arguments], path)
        self._logs[process.pid] = path
        self._open.callback(process.kill)
        return process

    def newest(self) -> SnapshotRow | None:
        """The newest snapshot row."""
        try:
            return SnapshotTable(Root(self.settings.delta_root)).newest()
        except (NotARegistryError, NoSuchSnapshotError):
            return None

    def snapshots(self) -> list[SnapshotRow]:
        """All snapshot rows, newest first."""
        return SnapshotTable(Root(self.settings.delta_root)).readable()

    def log_of(self, process: OwnedProcess) -> bytes:
        """Return the output that a process has written so far."""
        return self._logs[process.pid].read_bytes()

    def await_published(self, process: OwnedProcess) -> float:
        """Wait until all that Kafka has now is published while `process` runs; return the time of day, in seconds."""
        end = end_offsets(kafka_client_arguments(self.settings), self.settings.kafka_topic)[LOG_PARTITION]

        def is_published() -> bool:
            if process.exit_code is not None:
                raise NothingHappenedError(f"the job {process.pid} ended with {process.exit_code}", self.folder)
            row = self.newest()
            return row is not None and row.offsets.get(LOG_PARTITION, 0) >= max(end, 1)

        self.wait_for(f"all before offset {end} is published", is_published)
        return time.time()

    def wait_for(self, what: str, happens: Callable[[], bool]) -> None:
        """Raise NothingHappenedError if it does not within the limit."""
        until = Retrying(stop=stop_after_delay(LIMIT_S), wait=wait_fixed(0.1), retry=retry_if_not_result(bool))
        try:
            until(happens)
        except RetryError:
            raise NothingHappenedError(what, self.folder) from None

    def check(self) -> None:
        """Compare all snapshots and what all onlookers saw with the rules' answer.

        Each of them must have seen one.
        """
        self.wait_for("each onlooker sees a snapshot", lambda: all(each.looks for each in self.onlookers))
        seen = self.reader.take(), self.asker.take(), self.sql.take() if self.sql else []
        self.verifier.check()
        self.verifier.check_reader(seen[0])
        self.verifier.check_gateway(seen[1])
        self.verifier.check_spark(seen[2])
