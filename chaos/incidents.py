"""Incidents of a registry. Each begins and ends with a job that publishes, and returns its measurements."""

from __future__ import annotations

import random
import resource
import signal
import threading
import time
from collections.abc import Callable

from chaos.job import COMMITTED, FAILPOINTS
from chaos.world import World

Figures = dict[str, float]
Incident = Callable[[World, random.Random], Figures]

OUTAGE_S = 60.0
FULL_DISK_S = 20.0

RARE = ("claiming", "claimed", "taken over")
"""Steps that a run reaches once."""

SELDOM_WRITTEN = ("kv_config", "namesrv_config", "topic_mapping", "rejected", "filter")
"""Tables that the fleet of the chaos changes too seldom for a failpoint; tests/tables kills at each of them."""


def failpoints() -> list[str]:
    """The failpoints that a run under churn reaches, compaction of what is often written included."""
    return [
        step
        for step in FAILPOINTS
        if not step.endswith(SELDOM_WRITTEN) and (not step.startswith("compact") or step.endswith(("live", "snapshot")))
    ]


def killed_at(step: str) -> Incident:
    """The job kills itself at a step under churn, and another one goes on."""

    def incident(world: World, rng: random.Random) -> Figures:
        count = 1 if step in RARE or step.startswith("compact") else rng.randint(1, 5)
        dying = world.start_job("--die-at", step, "--count", str(count))
        world.wait_for(f"the job dies at {step}", lambda: dying.exit_code is not None)
        if dying.exit_code != -signal.SIGKILL:
            raise AssertionError(f"the job ended with {dying.exit_code} instead of dying at {step}")
        return {"restart_gap_s": _with_new_job(world)}

    return incident


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


def kafka_away(world: World, _rng: random.Random) -> Figures:
    """Kafka is killed, and back after a minute."""
    job = world.start_job()
    world.await_published(job)
    world.kafka.kill()
    _let_pass(OUTAGE_S)
    world.kafka.start()
    back_s = time.time()
    figures = {"after_kafka_s": world.await_published(job) - back_s}
    job.stop(limit_s=60)
    return figures


def gateway_killed(world: World, _rng: random.Random) -> Figures:
    """The gateway is killed and started again; it answers from the last snapshot."""
    job = world.start_job()
    world.await_published(job)
    gateway = world.start_gateway()
    _await_answers(world)
    gateway.kill()
    started_s = time.time()
    gateway = world.start_gateway()
    _await_answers(world)
    figures = {"gateway_answers_after_s": time.time() - started_s}
    gateway.stop()
    job.stop(limit_s=60)
    return figures


def disk_full(world: World, _rng: random.Random) -> Figures:
    """Keep the job's own process from writing any file for a while, neither tables nor its log.

    The limit of a file's size is what can be set on a running process without an own file system.
    """
    job = world.start_job()
    world.await_published(job)
    free = resource.prlimit(job.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(job.pid, resource.RLIMIT_FSIZE, (0, free[1]))
    _let_pass(FULL_DISK_S)
    resource.prlimit(job.pid, resource.RLIMIT_FSIZE, free)
    mended_s = time.time()
    figures = {"after_full_disk_s": world.await_published(job) - mended_s}
    job.stop(limit_s=60)
    return figures


OTHERS: dict[str, Incident] = {
    "replacement": replaced,
    "standby": standby_takes_over,
    "Kafka away": kafka_away,
    "gateway killed": gateway_killed,
    "disk full": disk_full,
}
ALL: dict[str, Incident] = {**{f"killed at {step}": killed_at(step) for step in failpoints()}, **OTHERS}
SHORT = ["killed at written live", "killed at publishing", f"killed at {COMMITTED}", "replacement"]
"""For the test suite: a few, of which each is one that the others do not cover."""


def _with_new_job(world: World) -> float:
    """Start a job, wait until all is published, stop it in order; return how long nothing had been published."""
    job = world.start_job()
    world.await_published(job)
    gap = _gap_s(world)
    job.stop(limit_s=60)
    return gap


def _gap_s(world: World) -> float:
    """The time from the last snapshot of the run before to the first publication of the newest run."""
    rows = world.snapshots()
    newest = rows[0].term
    first = min(row.published_at for row in rows if row.term == newest and row.kind == "PUBLICATION")
    before = max((row.published_at for row in rows if row.term < newest and row.kind != "CLAIM"), default=first)
    return (first - before) / 1000


def _claimed_s(world: World) -> float:
    return max(row.published_at / 1000 for row in world.snapshots() if row.kind == "CLAIM")


def _await_answers(world: World) -> None:
    looks = world.asker.looks
    world.wait_for("the gateway answers", lambda: world.asker.looks > looks)


def _let_pass(seconds: float) -> None:
    """The length of an outage is what it is about."""
    threading.Event().wait(seconds)
