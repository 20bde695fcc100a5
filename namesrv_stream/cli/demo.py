"""`demo`: a short story played on a real Kafka, Spark and Delta with simulated brokers, which ends by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from namesrv_stream.cli.output import duration_text
from namesrv_stream.cli.stage import Stage, data_option, open_stage
from namesrv_stream.config import Invocation
from namesrv_stream.fleet.plan import FleetPlan
from namesrv_stream.fleet.player import BrokerState, Fleet
from namesrv_stream.rules.lookup import RouteTables

PLAN = FleetPlan(
    brokers=8,
    clusters=2,
    slaves_per_master=1,
    topics=36,
    zones=2,
    heartbeat_timeout_ms=10_000,
    heartbeat_interval_ms=2_000,
    seed=7,
)
"""Brokers of the story. Their leases last 10 s instead of 120 s to keep it short; real brokers may ask for such too."""


@click.command("demo")
@data_option("data/demo")
@click.pass_obj
def demo(invocation: Invocation, data: Path) -> None:
    """Show brokers register, fall silent, leave and return, and the routes after each step. Takes a minute or two.

    The demo has its own settings: -c, --root and --set are refused, NAMESRV_* in the environment has no effect.
    """
    with open_stage(invocation, data) as stage:
        first_epoch = _play_scenes(stage)
    stage.scene("What is left")
    _show_next_steps(stage, first_epoch)


def _play_scenes(stage: Stage) -> int:
    """Play the scenes in order. Return the epoch before the first broker falls silent."""
    kafka = stage.stack.settings.kafka_bootstrap_servers
    stage.say(f"Brokers → Kafka at {kafka} → streaming job in Spark → Delta tables in {stage.root} → these answers.")
    stage.scene(f"{PLAN.brokers} simulated brokers in {PLAN.clusters} clusters register through Kafka")
    fleet = stage.stack.start_fleet(PLAN, unregister=False)
    stage.until("all brokers are in the tables", lambda tables: len(tables.live) == PLAN.brokers)
    stage.run("clusterList")
    before = stage.reader.follow()
    topic, master, slave = _characters(before.routes, fleet)
    stage.scene("A topic that two broker names share")
    stage.run("topicRoute", "-t", topic)
    _act(stage, topic, master, f"falls silent. Its lease is {duration_text(PLAN.lease_ms)}", fleet.crash)
    _act(stage, topic, slave, "shuts down in order and unregisters: no waiting", fleet.unregister)
    _act(stage, topic, master, "is back", fleet.come_back)
    stage.scene("What happened")
    stage.run("history", "--limit", "3")
    stage.scene(f"The story of {master.broker_name}")
    stage.run("why", master.broker_name)
    stage.scene(f"The same topic as it was before all this, in epoch {before.snapshot.epoch}")
    stage.run("topicRoute", "-t", topic, "--as-of", str(before.snapshot.epoch))
    return before.snapshot.epoch


def _act(stage: Stage, topic: str, who: BrokerState, does: str, act: Callable[[str, int], None]) -> None:
    """Let a broker act, wait until the tables show it, and print the topic's route."""
    name, address = who.broker_name, who.broker_addr
    stage.scene(f"{name}'s {'slave' if who.broker_id else 'master'} {address} {does}")
    was_live = address in stage.reader.follow().routes.live
    act(name, who.broker_id)
    what = f"{address} has left the tables" if was_live else f"{address} is in the tables again"
    stage.until(what, lambda tables: (address in tables.live) is not was_live)
    stage.run("topicRoute", "-t", topic)


def _characters(tables: RouteTables, fleet: Fleet) -> tuple[str, BrokerState, BrokerState]:
    """Return a topic on two broker names, the master of one of them and the slave of the other."""
    shared = (topic for topic, rows in tables.queues.items() if len(rows) == 2 and not topic.isupper())
    topic = next(each for each in sorted(shared) if "-" not in each)
    first, second = sorted(row.broker_name for row in tables.queues[topic])
    by_name = {(each.broker_name, each.broker_id): each for each in fleet.brokers()}
    return topic, by_name[first, 0], by_name[second, 1]


def _show_next_steps(stage: Stage, first_epoch: int) -> None:
    root, last_epoch = stage.root, stage.reader.follow().snapshot.epoch
    stage.say(
        f"Brokers, Kafka and Spark are stopped; all tables are in {root}.\n"
        "Go on with these commands. They will warn that no job is running:\n\n"
        f"  .venv/bin/namesrv-stream --root {root} history\n"
        f"  .venv/bin/namesrv-stream --root {root} diff {first_epoch} {last_epoch}\n"
        f"  .venv/bin/namesrv-stream --root {root} snapshots\n\n"
        "or start the same with leases of 120 s, until Ctrl-C:\n\n"
        "  .venv/bin/namesrv-stream up\n\n"
        "or ask with Spark SQL:\n\n"
        "  . .venv/bin/activate\n"
        "  SPARK_CONF_DIR=conf spark-sql -S --conf spark.sql.cli.print.header=true \\\n"
        '    -e "SELECT event_time, type, broker_name, broker_id, cause\n'
        f'    FROM delta.\\`{Path(root).resolve()}/broker_event\\` ORDER BY epoch, seq"'
    )
