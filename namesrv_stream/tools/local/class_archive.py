"""Record the archive of classes with which the job starts sooner (`namesrv_stream.tools.local.submission`)."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from namesrv_stream.config import as_options
from namesrv_stream.config.loading import ENV_PREFIX
from namesrv_stream.errors import NamesrvError
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.topic import ensure_topic
from namesrv_stream.records import DEFAULT_TOPIC
from namesrv_stream.reporting.texts import listed
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tools.fleet.broker import ChurnKind, FleetPlan
from namesrv_stream.tools.fleet.player import Fleet
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.process import OwnedProcess
from namesrv_stream.tools.local.submission import submission

_LIMIT_S = 180.0
_SHORT_LIMIT_S = 10.0
_LOOK_EVERY_S = 0.2
_CHARS_OF_AN_ERROR = 2000
_LEFT_OUT = re.compile(r"\[cds[^]]*\] (Skipping|Pre)")
"""Lines in which Java names classes that it leaves out of the archive. There are some hundred, which is normal."""
_PUBLICATIONS = 3
"""Publications to wait for. The first one starts Python workers and state stores, the later ones also read state."""


def record_archive(archive: Path, on_step: Callable[[str], None]) -> None:
    """Run the job on a registry of its own until it has published a few times, and let Java write the archive.

    `on_step` is called with the name of each step. Raises NamesrvError and then keeps the former archive. A new one
    replaces the file by a rename, because running jobs have the old file mapped in memory.
    """
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(prefix=".archive-", dir=archive.parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise _not_made(f"cannot write to {archive.parent}", str(error)) from error
    with beside as name:
        folder, recorded = Path(name), Path(name, archive.name)
        on_step("starting Kafka")
        with LocalKafka(folder / "kafka") as kafka:
            _record(kafka.bootstrap_servers, folder, recorded, on_step)
        recorded.replace(archive)


def _record(bootstrap_servers: str, folder: Path, recorded: Path, on_step: Callable[[str], None]) -> None:
    """Run the job and end it. Java writes the whole archive only if the job ends in order."""
    on_step("running the job on some simulated brokers")
    given = {"kafka.bootstrap.servers": bootstrap_servers, "delta.root": str(folder / "registry")}
    local = {"spark.master": "local[2]"}
    command, environment = submission(
        "route_registry", as_options(given), spark_options=local, records_archive=recorded
    )
    without_settings = {name: value for name, value in environment.items() if not name.startswith(ENV_PREFIX)}
    log = folder / "job.log"
    job, has_published = OwnedProcess(command, log, env=without_settings), False
    try:
        _feed(bootstrap_servers, Root(given["delta.root"]), job, log)
        has_published = True
        on_step("waiting for Java to write the archive")
    finally:
        job.stop(_LIMIT_S if has_published else _SHORT_LIMIT_S)
    if job.exit_code != 0 or not recorded.exists():
        raise _not_made(f"Java wrote none, and the job ended with {job.exit_code}{_on_class_path()}", _end_of(log))


def _feed(bootstrap_servers: str, root: Root, job: OwnedProcess, log: Path) -> None:
    """Let brokers register, change and send heartbeats until the job has published `_PUBLICATIONS` times."""
    kafka, given_up_s = {"bootstrap.servers": bootstrap_servers}, time.monotonic() + _LIMIT_S
    ensure_topic(kafka, DEFAULT_TOPIC)
    plan = FleetPlan(brokers=4, topics=20, period_ms=10_000, churn={ChurnKind.CREATE_TOPIC: 60.0})
    with HeartbeatProducer(kafka) as producer:
        fleet = Fleet(plan, producer)
        fleet.start()
        try:
            while _publications(root) < _PUBLICATIONS:
                fleet.wait(_LOOK_EVERY_S)
                if job.exit_code is not None:
                    raise _not_made(f"the job ended with {job.exit_code}", _end_of(log))
                if time.monotonic() > given_up_s:
                    raise _not_made(f"the job did not publish within {_LIMIT_S:.0f} s", _end_of(log))
        finally:
            fleet.stop(unregister=False)


def _not_made(what: str, output: str) -> NamesrvError:
    return NamesrvError(f"cannot make the archive of Java classes: {what}. The job starts slower without it.\n{output}")


def _on_class_path() -> str:
    """Return a note about environment variables that put a folder on the class path: Java then makes no archive."""
    found = [name for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)]
    return f" (Java makes none with {listed(found)}, which put folders on the class path)" if found else ""


def _publications(root: Root) -> int:
    try:
        return sum(row.kind == "PUBLICATION" for row in SnapshotTable(root).readable())
    except NamesrvError:  # no tables yet
        return 0


def _end_of(job_log: Path) -> str:
    lines = job_log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    return "".join(line for line in lines if not _LEFT_OUT.search(line))[-_CHARS_OF_AN_ERROR:]
