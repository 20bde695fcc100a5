"""`demo`: the registry as a short story, on real parts, that ends by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console
from rich.rule import Rule

from namesrv_stream.cli.entry import main
from namesrv_stream.cli.output import console, duration_text
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.fleet.plan import FleetPlan
from namesrv_stream.fleet.player import BrokerState, Fleet
from namesrv_stream.local.stack import LocalStack
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.reader import RouteReader

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
"""Leases of 10 s instead of 120 s, so that the story fits; real brokers may ask for such leases too."""

_SCENE_LIMIT_S = 180.0
_LOOK_EVERY_S = 0.2


class SceneFailedError(NamesrvError):
    """The demo waited for something that did not come."""

    def __init__(self, what: str, limit_s: float) -> None:
        super().__init__(f"waited {limit_s:.0f} s for this: {what}. Is the machine very busy? The tables are kept.")
        self.what = what


@click.command("demo")
@click.option("--data", type=click.Path(path_type=Path), default=Path("data/demo"), show_default=True)
def demo(data: Path) -> None:
    """Brokers register, fall silent, leave and come back; you see what their routes become. Takes a minute or two."""
    settings = NamesrvSettings.model_validate({"delta.root": str(data / "registry"), "listenPort": 0})
    output = console()
    with ExitStack() as open_things:
        with output.status("Starting Kafka and Spark ..."):
            stack = open_things.enter_context(LocalStack(settings, data, clear=True))
        _Story(output, stack, settings.delta_root).tell()
    _print_title(output, "What is left")
    _say_what_is_left(output, settings.delta_root)


class _Story:
    """The scenes, in order. Every answer on the screen comes from the command that is printed above it."""

    def __init__(self, output: Console, stack: LocalStack, root: str) -> None:
        self._output = output
        self._stack = stack
        self._root = root
        self._fleet: Fleet
        self._reader: RouteReader

    def tell(self) -> None:
        before = self._brokers_register()
        topic, victim, leaver = self._characters(before)
        self._scene("A topic that two broker names share")
        self._run("topicRoute", "-t", topic)
        self._falls_silent(victim, topic)
        self._unregisters(leaver, topic)
        self._comes_back(victim, topic)
        self._scene("What happened, and why")
        self._run("history", "--since", "2m", "--limit", "12")
        self._scene(f"The same topic as it was before all this, in epoch {before.epoch}")
        self._run("topicRoute", "-t", topic, "--as-of", str(before.epoch))

    def _brokers_register(self) -> SnapshotRow:
        self._scene(f"{PLAN.brokers} brokers in {PLAN.clusters} clusters register through Kafka")
        self._fleet = self._stack.start_fleet(PLAN, unregister=False)
        self._reader = RouteReader(self._root)
        self._until("all brokers are in the tables", lambda tables: len(tables.live) == PLAN.brokers)
        self._run("clusterList")
        return self._reader.follow().snapshot

    def _characters(self, _snapshot: SnapshotRow) -> tuple[str, BrokerState, BrokerState]:
        """A topic on two broker names; the master of one, with the slave of the other."""
        tables = self._reader.follow().routes
        shared = (topic for topic, rows in tables.queues.items() if len(rows) == 2 and not topic.isupper())
        topic = next(each for each in sorted(shared) if "-" not in each)
        first, second = sorted(row.broker_name for row in tables.queues[topic])
        by_name = {(each.broker_name, each.broker_id): each for each in self._fleet.brokers()}
        return topic, by_name[first, 0], by_name[second, 1]

    def _falls_silent(self, victim: BrokerState, topic: str) -> None:
        name, address = victim.broker_name, victim.broker_addr
        self._scene(f"{name}'s master {address} falls silent. Its lease is {duration_text(PLAN.lease_ms)}")
        self._fleet.crash(name, victim.broker_id)
        self._until(f"the lease of {address} has ended", lambda tables: address not in tables.live)
        self._run("topicRoute", "-t", topic)

    def _unregisters(self, leaver: BrokerState, topic: str) -> None:
        name, address = leaver.broker_name, leaver.broker_addr
        self._scene(f"{name}'s slave {address} shuts down in order and unregisters: no waiting")
        self._fleet.unregister(name, leaver.broker_id)
        self._until(f"{address} has left", lambda tables: address not in tables.live)
        self._run("topicRoute", "-t", topic)

    def _comes_back(self, victim: BrokerState, topic: str) -> None:
        name, address = victim.broker_name, victim.broker_addr
        self._scene(f"{name}'s master {address} is back")
        self._fleet.come_back(name, victim.broker_id)
        self._until(f"{address} is back", lambda tables: address in tables.live)
        self._run("topicRoute", "-t", topic)

    def _scene(self, title: str) -> None:
        _print_title(self._output, title)

    def _run(self, *arguments: str) -> None:
        self._output.print(f"[dim]$ namesrv-stream --root {self._root}[/] [bold]{' '.join(arguments)}[/]")
        main.main(["--root", self._root, *arguments], standalone_mode=False)

    def _until(self, what: str, condition: Callable[[RouteTables], bool]) -> None:
        """Waits with what is going on in the last line of the terminal."""
        started_s = time.monotonic()
        with self._output.status(f"until {what} ...") as line:
            while not condition((view := self._reader.follow()).routes):
                self._stack.job.check()
                waited_s = time.monotonic() - started_s
                if waited_s > _SCENE_LIMIT_S:
                    raise SceneFailedError(what, _SCENE_LIMIT_S)
                line.update(f"until {what} ... {waited_s:.0f} s, epoch {view.snapshot.epoch}")
                time.sleep(_LOOK_EVERY_S)
        self._output.print(f"[green]{what}[/] after {time.monotonic() - started_s:.1f} s")


def _print_title(output: Console, title: str) -> None:
    output.print()
    output.print(Rule(title, align="left") if output.is_terminal else f"--- {title}", highlight=False)


def _say_what_is_left(output: Console, root: str) -> None:
    output.print(
        f"Brokers, Kafka and Spark are stopped; all tables are in {root}. Go on with:\n\n"
        f"  .venv/bin/namesrv-stream --root {root} history\n"
        f"  .venv/bin/namesrv-stream --root {root} snapshots\n"
        "  .venv/bin/namesrv-stream up                # the same with leases of 120 s, until Ctrl-C\n\n"
        "or ask with Spark SQL:\n\n"
        "  . .venv/bin/activate\n"
        '  SPARK_CONF_DIR=conf spark-sql -e "SELECT event_time, type, broker_name, broker_id, cause\n'
        f'    FROM delta.\\`{Path(root).resolve()}/broker_event\\` ORDER BY epoch, seq"',
        highlight=False,
    )
