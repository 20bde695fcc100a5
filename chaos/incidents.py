"""Incidents of a registry under churn. Each begins and ends without a job, and returns what it measured.

A job that is killed is followed by the next incident's job: nothing mends in between what the kill broke.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from chaos.job import COMMITTED, FAILPOINTS
from chaos.lively import LivelyBrokers
from chaos.world import LEASE_MS, World
from namesrv_stream.answers.events import Span, newest_of
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import ROW_CHANGE, TOPIC, TableSpec
from namesrv_stream.tools.local.process import OwnedProcess

Figures = dict[str, float]
Incident = Callable[[World, random.Random], Figures]

OUTAGE_S = 60.0
LONG_OUTAGE_S = 600.0
LEADER_CHANGES_S = (9.0, 11.0, 13.0, 15.0)
LIVELY_BROKERS = 8
FULL_DISK_S = 20.0
MANY_PUBLICATIONS = 500

RARE = ("claiming", "claimed", "taken over")
"""Steps that a run reaches once."""

SELDOM_WRITTEN = ("kv_config", "namesrv_config", "topic_mapping", "rejected", "filter")
"""Tables that the fleet of the chaos changes too seldom for a failpoint; tests/tables kills at each of them."""


class LivingBrokerLeftError(NamesrvError):
    """The history has ends of leases of brokers that sent a heartbeat every second."""

    def __init__(self, ends: list[str]) -> None:
        super().__init__(f"living brokers left the routes: {'; '.join(ends)}")


def failpoints() -> list[str]:
    """The failpoints that a run under churn reaches, compaction of the tables that only grow included."""
    return [
        point
        for point in FAILPOINTS
        if not point.endswith(SELDOM_WRITTEN)
        and (not point.startswith("compact") or point.endswith(("broker_event", "snapshot")))
    ]


def killed_at(point: str) -> Incident:
    """The job kills itself at a point under churn."""

    def incident(world: World, rng: random.Random) -> Figures:
        count = 1 if point in RARE or point.startswith("compact") else rng.randint(1, 5)
        _await_death(world, world.start_job("--die-at", point, "--count", str(count)), point)
        return {}

    return incident


def restarted(world: World, _rng: random.Random) -> Figures:
    """The job is killed, and started again at once."""
    former = world.start_job()
    world.await_published(former)
    former.kill()
    killed_s = time.time()
    job = world.start_job()
    world.await_published(job)
    figures = {"kill_to_publication_s": _first_publication_s(world) - killed_s}
    job.stop(limit_s=60)
    return figures


def replaced(world: World, _rng: random.Random) -> Figures:
    """A job is started beside the running one, which stops by itself."""
    former = world.start_job()
    world.await_published(former)
    heir = world.start_job()
    world.wait_for("the former job stops by itself", lambda: former.exit_code is not None)
    stopped_s = time.time()
    world.await_published(heir)
    figures = {
        "replacement_gap_s": _gap_s(world),
        "former_ends_after_claim_s": stopped_s - _claimed_s(world),
    }
    heir.stop(limit_s=60)
    return figures


def heir_killed(world: World, _rng: random.Random) -> Figures:
    """The job that takes over dies after its claim, while the former one stops."""
    former = world.start_job()
    world.await_published(former)
    _await_death(world, world.start_job("--die-at", "taken over"), "the handover")
    world.wait_for("the former job stops by itself", lambda: former.exit_code is not None)
    return {}


def former_killed(world: World, _rng: random.Random) -> Figures:
    """The job that is replaced dies as soon as the other one has claimed the registry."""
    former = world.start_job()
    world.await_published(former)
    claimed_before_s = _claimed_s(world)
    heir = world.start_job()
    world.wait_for("the heir claims the registry", lambda: _claimed_s(world) > claimed_before_s)
    former.kill()
    world.await_published(heir)
    figures = {"handover_gap_s": _gap_s(world)}
    heir.stop(limit_s=60)
    return figures


def standby_takes_over(world: World, _rng: random.Random) -> Figures:
    """The active job is killed while a standby waits with a warm session."""
    active, standby = _with_standby(world)
    active.kill()
    world.await_published(standby)
    figures = {"standby_gap_s": _gap_s(world)}
    standby.stop(limit_s=60)
    return figures


def kafka_away(seconds: float) -> Incident:
    """Kafka is killed, and back after so many seconds."""

    def incident(world: World, _rng: random.Random) -> Figures:
        job = world.start_job()
        world.await_published(job)
        world.kafka.kill()
        _let_pass(seconds)
        world.kafka.start()
        back_s = time.time()
        figures = {"after_kafka_s": world.await_published(job) - back_s}
        job.stop(limit_s=60)
        return figures

    return incident


def leader_changed(world: World, rng: random.Random) -> Figures:
    """Kafka answers nothing for 9 to 15 s, as while it elects a leader: of leases of 10 s only those of the dead end.

    Kafka's process is paused, so ticks and records wait for it. At each pause one broker falls silent.
    """
    job = world.start_job()
    world.await_published(job)
    _await_answers(world)
    figures: Figures = {}
    with LivelyBrokers(world.port, LIVELY_BROKERS) as brokers:
        world.wait_for("all brokers are in the routes", lambda: brokers.living <= _live(world))
        dead = rng.sample(range(LIVELY_BROKERS), len(LEADER_CHANGES_S))
        began_ms = _event_time_ms(world)
        for number, seconds in zip(dead, LEADER_CHANGES_S, strict=True):
            with world.kafka.paused():
                silent = brokers.silence(number)
                _let_pass(seconds)
            back_s = time.time()
            world.wait_for(f"{silent} leaves, which died {seconds:g} s ago", lambda: silent not in _live(world))  # noqa: B023
            figures[f"dead_goes_after_{seconds:g}_s"] = time.time() - back_s
            world.wait_for("a lease has passed", lambda: _event_time_ms(world) > back_s * 1_000 + 2 * LEASE_MS)  # noqa: B023
            _require_living(world, brokers, began_ms)
        figures["closed_by_gateway"] = brokers.reconnected
    job.stop(limit_s=60)
    return figures


def gateway_killed(world: World, _rng: random.Random) -> Figures:
    """The gateway is killed and started again; it answers from the last snapshot."""
    job = world.start_job()
    world.await_published(job)
    _await_answers(world)
    world.gateway.kill()
    started_s = time.time()
    world.start_gateway()
    _await_answers(world)
    figures = {"gateway_answers_after_s": time.time() - started_s}
    job.stop(limit_s=60)
    return figures


def published_often(world: World, _rng: random.Random) -> Figures:
    """One job publishes hundreds of snapshots while all onlookers read."""
    job = world.start_job()
    world.await_published(job)
    first, started_s = _newest_epoch(world), time.time()
    while _newest_epoch(world) < first + MANY_PUBLICATIONS:
        world.await_published(job)
    figures = {"seconds_a_publication": (time.time() - started_s) / MANY_PUBLICATIONS}
    job.stop(limit_s=60)
    return figures


def disk_full(world: World, _rng: random.Random) -> Figures:
    """Keep the job, its JVM and its workers from writing any file for a while: tables, checkpoint, state, log.

    The limit of a file's size is what can be set on running processes without a file system of their own.
    """
    job = world.start_job()
    world.await_published(job)
    _limit_files(job, 0)
    _let_pass(FULL_DISK_S)
    _limit_files(job, resource.RLIM_INFINITY)
    mended_s = time.time()
    figures = {"after_full_disk_s": world.await_published(job) - mended_s}
    job.stop(limit_s=60)
    return figures


def jvm_killed(world: World, _rng: random.Random) -> Figures:
    """The JVM of a standby dies, then that of the active job: both processes end by themselves."""
    active, standby = _with_standby(world)
    for process in (standby, active):
        for jvm in _jvms(process):
            jvm.kill()
        world.wait_for("the job without a JVM ends", partial(_has_ended, process))
    return {}


def checkpoint_damaged(world: World, _rng: random.Random) -> Figures:
    """The newest offsets and commit of Spark's checkpoint are cut off, as by a disk that lost what was not synced."""
    job = world.start_job()
    world.await_published(job)
    job.kill()
    (checkpoint,) = Path(world.settings.checkpoint_location).glob("state-*")
    for folder in (checkpoint / "offsets", checkpoint / "commits"):
        number = max(int(path.name) for path in folder.iterdir() if path.name.isdigit())
        newest = folder / str(number)
        newest.write_bytes(b"")
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    heir = world.start_job()
    world.await_published(heir)
    heir.stop(limit_s=60)
    return {}


def jvm_hung(world: World, _rng: random.Random) -> Figures:
    """The JVM of the active job is stopped beside a standby: the job ends by itself, and the standby goes on."""
    active, standby = _with_standby(world)
    return _hung(world, active, standby, _jvms(active), b"the JVM of this job has not answered")


def workers_hung(world: World, _rng: random.Random) -> Figures:
    """The workers of the active job are stopped beside a standby: the job, whose JVM answers, ends by itself."""
    active, standby = _with_standby(world, "--batch-looks", "60")
    (jvm,) = _jvms(active)
    return _hung(world, active, standby, jvm.children(recursive=True), b"a micro-batch has made no step")


def _hung(
    world: World, active: OwnedProcess, standby: OwnedProcess, hanging: list[psutil.Process], reason: bytes
) -> Figures:
    for process in hanging:
        process.suspend()
    stopped_s = time.time()
    world.wait_for("the job of which a part hangs ends", partial(_has_ended, active))
    figures = {"hung_job_ends_after_s": time.time() - stopped_s}
    for process in hanging:
        with suppress(psutil.NoSuchProcess):
            process.resume()
    if active.exit_code != 1 or reason not in world.log_of(active):
        raise AssertionError(f"the job ended with {active.exit_code}, and not because {reason.decode()}")
    world.await_published(standby)
    figures["hung_gap_s"] = _gap_s(world)
    standby.stop(limit_s=60)
    return figures


def checkpoint_removed(world: World, _rng: random.Random) -> Figures:
    """The checkpoint is removed under the active job, which is killed later: the standby takes over."""
    active, standby = _with_standby(world)
    for folder in Path(world.settings.checkpoint_location).glob("state-*"):
        shutil.rmtree(folder, ignore_errors=True)  # the job may write meanwhile
    world.await_published(active)
    active.kill()
    world.await_published(standby)
    standby.stop(limit_s=60)
    return {}


def file_cut_short(spec: TableSpec) -> Incident:
    """A data file is cut short: of a keyed table, which `repair` makes anew, or of the history, which loses rows.

    Afterwards each moment of the past is as it was, or refused.
    """

    def incident(world: World, rng: random.Random) -> Figures:
        job = world.start_job()
        world.await_published(job)
        job.stop(limit_s=60)
        world.check()
        damaged = rng.choice(sorted(_files_of(world, spec, world.snapshots()[0])))
        for onlooker in world.onlookers:
            onlooker.bears_damage = True
        os.truncate(damaged, damaged.stat().st_size // 2)
        damaged_s = time.time()
        repair = world.command("repair", "--yes")
        world.wait_for("repair ends", lambda: repair.exit_code is not None)
        if repair.exit_code:
            raise AssertionError(f"repair ended with {repair.exit_code}: {world.log_of(repair)!r}")
        figures = {"repaired_after_s": time.time() - damaged_s, **world.verifier.check_past()}
        heir = world.start_job()
        world.await_published(heir)
        for onlooker in world.onlookers:
            onlooker.bears_damage = False
        heir.stop(limit_s=60)
        return figures

    return incident


OTHERS: dict[str, Incident] = {
    "restart": restarted,
    "replacement": replaced,
    "heir killed in the handover": heir_killed,
    "former job killed in the handover": former_killed,
    "standby": standby_takes_over,
    "Kafka away": kafka_away(OUTAGE_S),
    "leader change": leader_changed,
    "gateway killed": gateway_killed,
    "disk full": disk_full,
    "JVM killed": jvm_killed,
    "checkpoint damaged": checkpoint_damaged,
    "JVM hung": jvm_hung,
    "workers hung": workers_hung,
    "checkpoint removed": checkpoint_removed,
    "data file cut short": file_cut_short(TOPIC),
    "history cut short": file_cut_short(ROW_CHANGE),
}
ALL: dict[str, Incident] = {**{f"killed at {point}": killed_at(point) for point in failpoints()}, **OTHERS}
ON_REQUEST: dict[str, Incident] = {
    "Kafka away for ten minutes": kafka_away(LONG_OUTAGE_S),
    "published often": published_often,
}
"""Too long for a turn of their own: they happen when they are named."""
SHORT = [
    "killed at written live",
    "killed at publishing",
    f"killed at {COMMITTED}",
    "replacement",
    "standby",
    "disk full",
    "JVM hung",
    "workers hung",
]
"""For the test suite: a few, of which each is one that the others do not cover."""


def _await_death(world: World, dying: OwnedProcess, point: str) -> None:
    world.wait_for(f"the job dies at {point}", lambda: dying.exit_code is not None)
    if dying.exit_code != -signal.SIGKILL:
        raise AssertionError(f"the job ended with {dying.exit_code} instead of dying at {point}")


def _has_ended(process: OwnedProcess) -> bool:
    return process.exit_code is not None


def _with_standby(world: World, *options: str) -> tuple[OwnedProcess, OwnedProcess]:
    """Start a job with these options and, once it has published, another one that waits beside it."""
    active = world.start_job(*options)
    world.await_published(active)
    standby = world.start_job("--standby")
    world.wait_for("the standby waits", lambda: b"standby: waits" in world.log_of(standby))
    return active, standby


def _jvms(job: OwnedProcess) -> list[psutil.Process]:
    return [child for child in psutil.Process(job.pid).children(recursive=True) if child.name() == "java"]


def _files_of(world: World, spec: TableSpec, row: SnapshotRow) -> set[Path]:
    """Return the data files of a table as of a snapshot."""
    return set(map(Path, Root(world.settings.delta_root).open(spec, row.versions[spec.name]).file_uris()))


def _limit_files(job: OwnedProcess, limit_bytes: int) -> None:
    process = psutil.Process(job.pid)
    for each in (process, *process.children(recursive=True)):
        with suppress(ProcessLookupError):  # a Python worker may end meanwhile
            resource.prlimit(each.pid, resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))


def _newest_epoch(world: World) -> int:
    newest = world.newest()
    return newest.epoch if newest else 0


def _live(world: World) -> set[str]:
    return set(Registry(world.settings.delta_root).newest().routes.live)


def _event_time_ms(world: World) -> int:
    newest = world.newest()
    return (newest and newest.event_time) or 0


def _require_living(world: World, brokers: LivelyBrokers, since_ms: int) -> None:
    """Raise LivingBrokerLeftError if a living broker is not in the routes, or was not at any time since then."""
    lines = newest_of(Registry(world.settings.delta_root).newest(), Span(since_ms).covers, None)
    ended = [line for line in lines if line.type in LEASE_ENDS and line.broker_addr in brokers.living]
    texts = [f"{line.broker_addr} {line.type} in epoch {line.epoch}" for line in ended]
    if texts or not brokers.living <= _live(world):
        raise LivingBrokerLeftError(texts or sorted(brokers.living - _live(world)))


def _gap_s(world: World) -> float:
    """The time from the last snapshot of the run before to the first publication of the newest run."""
    first_s, newest = _first_publication_s(world), world.snapshots()[0].term
    before = [row.published_at for row in world.snapshots() if row.term < newest and row.kind != "CLAIM"]
    return first_s - max(before) / 1000 if before else 0.0


def _first_publication_s(world: World) -> float:
    """The time at which the newest run published its first micro-batch."""
    rows = world.snapshots()
    return min(row.published_at for row in rows if row.term == rows[0].term and row.kind == "PUBLICATION") / 1000


def _claimed_s(world: World) -> float:
    """The time of the newest claim."""
    return max(row.published_at / 1000 for row in world.snapshots() if row.kind == "CLAIM")


def _await_answers(world: World) -> None:
    looks = world.asker.looks
    world.wait_for("the gateway answers", lambda: world.asker.looks > looks)


def _let_pass(seconds: float) -> None:
    """The length of an outage is what it is about."""
    threading.Event().wait(seconds)
