"""Incidents of a registry under churn. Each begins and ends without a job, and returns what it measured.

A job that is killed is followed by the next incident's job: nothing mends in between what the kill broke.
"""

from __future__ import annotations

import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from chaos.job import COMMITTED, FAILPOINTS
from chaos.world import World
from namesrv_stream.local.process import OwnedProcess

Figures = dict[str, float]
Incident = Callable[[World, random.Random], Figures]

OUTAGE_S = 60.0
LONG_OUTAGE_S = 600.0
FULL_DISK_S = 20.0
MANY_PUBLICATIONS = 500

RARE = ("claiming", "claimed", "taken over")
"""Steps that a run reaches once."""

SELDOM_WRITTEN = ("kv_config", "namesrv_config", "topic_mapping", "rejected", "filter")
"""Tables that the fleet of the chaos changes too seldom for a failpoint; tests/tables kills at each of them."""


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
    active = world.start_job()
    world.await_published(active)
    standby = world.start_job("--standby")
    world.wait_for("the standby waits", lambda: b"standby: waits" in world.log_of(standby))
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
    active = world.start_job()
    world.await_published(active)
    standby = world.start_job("--standby")
    world.wait_for("the standby waits", lambda: b"standby: waits" in world.log_of(standby))
    for process in (standby, active):
        _kill_jvm(process)
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


OTHERS: dict[str, Incident] = {
    "restart": restarted,
    "replacement": replaced,
    "heir killed in the handover": heir_killed,
    "former job killed in the handover": former_killed,
    "standby": standby_takes_over,
    "Kafka away": kafka_away(OUTAGE_S),
    "gateway killed": gateway_killed,
    "disk full": disk_full,
    "JVM killed": jvm_killed,
    "checkpoint damaged": checkpoint_damaged,
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
]
"""For the test suite: a few, of which each is one that the others do not cover."""


def _await_death(world: World, dying: OwnedProcess, point: str) -> None:
    world.wait_for(f"the job dies at {point}", lambda: dying.exit_code is not None)
    if dying.exit_code != -signal.SIGKILL:
        raise AssertionError(f"the job ended with {dying.exit_code} instead of dying at {point}")


def _has_ended(process: OwnedProcess) -> bool:
    return process.exit_code is not None


def _kill_jvm(job: OwnedProcess) -> None:
    for child in psutil.Process(job.pid).children(recursive=True):
        if child.name() == "java":
            child.kill()


def _limit_files(job: OwnedProcess, limit_bytes: int) -> None:
    process = psutil.Process(job.pid)
    for each in (process, *process.children(recursive=True)):
        with suppress(ProcessLookupError):  # a Python worker may end meanwhile
            resource.prlimit(each.pid, resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))


def _newest_epoch(world: World) -> int:
    newest = world.newest()
    return newest.epoch if newest else 0


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
