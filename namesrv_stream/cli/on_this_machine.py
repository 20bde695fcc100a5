"""The commands `up` and `demo`: the whole registry on this machine, with real Kafka and Spark.

`up` runs until Ctrl-C. The demo is a short story that ends by itself.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console, Group
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from namesrv_stream.cli.entry import main
from namesrv_stream.cli.output import console, print_answer, say
from namesrv_stream.config import Invocation, as_options
from namesrv_stream.errors import NamesrvError, masked
from namesrv_stream.job.background_job import stop_on_signals
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.reporting.texts import broker_text, duration_text
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tools.fleet.broker import FleetPlan, SimulatedBroker
from namesrv_stream.tools.fleet.player import Fleet
from namesrv_stream.tools.local.process import ServerEndedError
from namesrv_stream.tools.local.stack import LocalStack, own_kafka_port

_CHECK_EVERY_S = 1.0
_SCENE_LIMIT_S = 180.0
_LOOK_EVERY_S = 0.2
_PYTHON = shlex.quote(sys.executable)
_INTERRUPTED = 128 + signal.SIGINT
_MADE_ANEW = ("kafka", "registry", "registry-checkpoint")


@click.command("up")
@click.option("--data", type=click.Path(path_type=Path), default=Path("data"), help="Folder for the data of Kafka.")
@click.option(
    "--brokers",
    type=click.IntRange(min=0),
    default=8,
    help="Number of simulated brokers.",
)
@click.option("--topics", type=click.IntRange(min=1), default=30, help="Topics of the simulated brokers.")
@click.pass_obj
def up(invocation: Invocation, data: Path, brokers: int, topics: int) -> None:
    """Run everything on this machine, until Ctrl-C.

    Kafka, the streaming job, a gateway and simulated brokers. Ports on 127.0.0.1: 9092 and one more for Kafka
    (kafka.bootstrap.servers), 9876 for the gateway (listenPort). All other commands find Kafka and the tables without
    options.
    """
    settings = invocation.settings
    port = own_kafka_port(settings)
    stop = threading.Event()
    set_up_logging(log_format=settings.log_format)
    with ExitStack() as open_things, _ended_by_a_dead_part():
        try:
            stack = open_things.enter_context(LocalStack(settings, data, port))
            stop_on_signals(stop)
        except KeyboardInterrupt:
            say("interrupted during the start; everything is stopped.")
            raise click.exceptions.Exit(_INTERRUPTED) from None
        if brokers:
            stack.start_fleet(FleetPlan(brokers=brokers, topics=topics))
        print_answer(None, _what_runs(stack, invocation), as_json=False)
        registry, last_epoch = Registry(settings.delta_root, settings.storage_options or None), 0
        while not stop.wait(_CHECK_EVERY_S):
            stack.check()
            if brokers and not last_epoch and (last_epoch := _epoch_with(registry, brokers)):
                console().print(f"All {brokers} simulated brokers are in the tables (snapshot {last_epoch}).")
        stack.check()  # beside a part that has died a clean end would wait for minutes
        last_epoch = _epoch_with(registry, 1) if brokers else 0
    console().print(f"Stopped. The tables are kept in {masked(settings.delta_root)}.")
    if last_epoch:
        console().print(
            f"The simulated brokers have unregistered. `clusterList --as-of {last_epoch}` shows them as they were."
        )


def _epoch_with(registry: Registry, brokers: int) -> int:
    """Return the newest epoch if its tables have so many brokers, else 0."""
    try:
        now = registry.newest()
        return now.snapshot.epoch if len(now.live) >= brokers else 0
    except NamesrvError:
        return 0  # the job has not published yet


@contextmanager
def _ended_by_a_dead_part() -> Iterator[None]:
    """End this process at once, with the reason, if Kafka or Spark's JVM has died.

    An end in order would wait for the dead one. The other one ends with this process. The tables and Kafka's log are
    consistent at any moment.
    """
    try:
        yield
    except ServerEndedError as died:
        say(f"{died}\nEverything is stopped. No record is lost.")
        os._exit(died.exit_status)


def _what_runs(stack: LocalStack, given: Invocation) -> Group:
    grid = Table.grid(padding=(0, 2))
    grid.add_row("NameServer address", stack.gateway.address)
    grid.add_row("Kafka", stack.settings.kafka_bootstrap_servers)
    grid.add_row("tables", masked(stack.settings.delta_root))
    options = [*(["-c", str(given.file)] if given.file else []), *as_options(given.options)]
    command = masked(" ".join([_program(), *map(shlex.quote, options), "status"]))
    return Group(grid, Text(f"In another terminal: {command}. Ctrl-C stops everything."))


def _program() -> str:
    """Return the command by which this program was called."""
    return f"{_PYTHON} -m namesrv_stream" if sys.argv[0].endswith(".py") else shlex.quote(sys.argv[0])


class Stage:
    """The running parts of a demo, and its output. Each answer comes from the command that is printed above it."""

    def __init__(self, invocation: Invocation, stack: LocalStack, output: Console) -> None:
        self._invocation = invocation
        self.stack = stack
        self.root = invocation.settings.delta_root
        self.registry = Registry(self.root)
        self.output = output

    def scene(self, title: str) -> None:
        """Print a title across the screen."""
        self.output.print()
        self.output.print(Rule(title, align="left") if self.output.is_terminal else f"--- {title}")

    def say_command(self, program: str, *arguments: str) -> None:
        """Print a command line as in a shell."""
        self.output.print(f"[dim]$ {program}[/] [bold]{' '.join(arguments)}[/]")

    def run(self, name: str, *arguments: str) -> None:
        """Print and run a command of this project on the stage's tables.

        Raises the command's own errors, and NamesrvError if its exit status is not 0.
        """
        program = f"namesrv-stream --root {self.root}"
        self.say_command(program, name, *arguments)
        command = main.get_command(click.Context(main), name)
        assert command is not None, "the story names commands that there are"
        status = command.main([*arguments], prog_name=name, standalone_mode=False, obj=self._invocation)
        if status:
            line = " ".join((program, name, *arguments))
            raise NamesrvError(
                f"`{line}` ended with status {status}. Its output above has the cause. The tables are kept."
            )

    def until(self, what: str, condition: Callable[[RouteTables], bool]) -> None:
        """Wait until the route tables meet a condition; show progress in the last line, then print the time it took.

        Raises NamesrvError after 180 s.
        """
        started_s = time.monotonic()
        with self.output.status(f"until {what} ...") as line:
            while not condition((view := self.registry.newest()).routes):
                self.stack.check()
                waited_s = time.monotonic() - started_s
                if waited_s > _SCENE_LIMIT_S:
                    raise NamesrvError(
                        f"not within {_SCENE_LIMIT_S:.0f} s: {what}. The tables are kept. Run the demo again."
                    )
                line.update(f"until {what} ... {waited_s:.0f} s, snapshot {view.snapshot.epoch}")
                time.sleep(_LOOK_EVERY_S)
        self.output.print(f"[green]{what}[/] after {time.monotonic() - started_s:.1f} s")


def data_option(default: str, *more: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option --data of a demo. `more` names further folders that the demo makes anew."""
    return click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(default),
        help=f"Folder for tables, Kafka's data and logs: a new one, or that of a former demo. "
        f"{', '.join((*_MADE_ANEW, *more))} in it are deleted first.",
    )


@contextmanager
def open_stage(given: Invocation, data: Path, *more: str) -> Iterator[Stage]:
    """Run Kafka, the streaming job and the gateway within the `with`, and yield their stage.

    The tables and the folders `more` in `data` are made anew at the start and kept at the end. Given settings are
    refused and those of the environment have no effect, so that a demo is the same everywhere. Ctrl-C ends it in order,
    with exit status 130.
    """
    if given.file is not None or given.options:
        raise click.UsageError("a demo has its own settings. Leave out -c, --root and --set; --data sets the folder.")
    # Any free port and no KV file: a name server may be running on this machine.
    own = Invocation(None, {"delta.root": str(data / "registry"), "listenPort": "0", "kvConfigPath": ""}, {})
    output = console()
    try:
        with ExitStack() as open_things:
            with output.status("Starting Kafka, Spark and the gateway ..."):
                stack = open_things.enter_context(LocalStack(own.settings, data, made_anew=(*_MADE_ANEW, *more)))
            with _ended_by_a_dead_part():
                yield Stage(own, stack, output)
            with output.status("Stopping everything ..."):
                open_things.close()
    except KeyboardInterrupt:
        say(f"interrupted; everything is stopped. The tables so far are in {own.settings.delta_root}.")
        raise click.exceptions.Exit(_INTERRUPTED) from None


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
"""Brokers of the story. Their leases last 10 s instead of 120 s to keep it short; real brokers may request that too."""


@click.command("demo")
@data_option("data/demo")
@click.pass_obj
def demo(invocation: Invocation, data: Path) -> None:
    """Show an outage and its end.

    Brokers register, expire, unregister and return, and the routes after each step. Takes less than a minute, the
    first time three. The demo has its own settings: --config, --root and --set are rejected, NAMESRV_* in the
    environment has no effect.
    """
    with open_stage(invocation, data) as stage:
        first_epoch = _play_scenes(stage)
    stage.scene("Next steps")
    _show_next_steps(stage, first_epoch)


def _play_scenes(stage: Stage) -> int:
    """Play the scenes in order. Return the epoch before the first broker falls silent."""
    kafka = stage.stack.settings.kafka_bootstrap_servers
    stage.output.print(
        f"Brokers → Kafka at {kafka} → streaming job in Spark → Delta tables in {stage.root} → these answers."
    )
    stage.scene(f"{PLAN.brokers} simulated brokers in {PLAN.clusters} clusters register through Kafka")
    fleet = stage.stack.start_fleet(PLAN, unregister=False)
    stage.until("all brokers are in the tables", lambda tables: len(tables.live) == PLAN.brokers)
    stage.run("clusterList")
    before = stage.registry.newest()
    topic, master, slave = _characters(before.routes, fleet)
    stage.scene("A topic on two broker groups")
    stage.run("topicRoute", "-t", topic)
    _act(stage, topic, master, f"falls silent; its heartbeat timeout is {duration_text(PLAN.lease_ms)}", fleet.crash)
    _act(stage, topic, slave, "shuts down cleanly and unregisters: no timeout", fleet.unregister)
    _act(stage, topic, master, "returns", fleet.come_back)
    stage.scene("The latest events")
    stage.run("history", "--limit", "3")
    stage.scene(f"The history of {master.group.broker_name}")
    stage.run("why", master.group.broker_name)
    stage.scene(f"The same topic before the outage, in snapshot {before.snapshot.epoch}")
    stage.run("topicRoute", "-t", topic, "--as-of", str(before.snapshot.epoch))
    return before.snapshot.epoch


def _act(stage: Stage, topic: str, who: SimulatedBroker, does: str, act: Callable[[str, int], None]) -> None:
    """Let a broker act, wait until the tables show it, and print the topic's route."""
    name, address = who.group.broker_name, who.address
    stage.scene(f"{broker_text(name, who.broker_id)} ({address}) {does}")
    was_live = address in stage.registry.newest().routes.live
    act(name, who.broker_id)
    what = f"{address} is removed from the tables" if was_live else f"{address} is in the tables again"
    stage.until(what, lambda tables: (address in tables.live) is not was_live)
    stage.run("topicRoute", "-t", topic)


def _characters(tables: RouteTables, fleet: Fleet) -> tuple[str, SimulatedBroker, SimulatedBroker]:
    """Return a topic on two broker names, the master of one of them and the slave of the other."""
    shared = (topic for topic, rows in tables.queues.items() if len(rows) == 2 and not topic.isupper())
    topic = next(each for each in sorted(shared) if "-" not in each)
    first, second = sorted(row.broker_name for row in tables.queues[topic])
    by_name = {(each.group.broker_name, each.broker_id): each for each in fleet.brokers()}
    return topic, by_name[first, 0], by_name[second, 1]


def _show_next_steps(stage: Stage, first_epoch: int) -> None:
    root, program, last_epoch = shlex.quote(stage.root), _program(), stage.registry.newest().snapshot.epoch
    count = "SELECT type, count(*) AS events FROM broker_event GROUP BY type ORDER BY type"
    stage.output.print(
        f"Brokers, Kafka and Spark are stopped. All tables are in {stage.root}.\n"
        "Query them:\n\n"
        f"  {program} --root {root} history\n"
        f"  {program} --root {root} diff {first_epoch} {last_epoch}\n"
        f"  {program} --root {root} snapshots\n\n"
        "or start the same with a heartbeat timeout of 2m, until Ctrl-C:\n\n"
        f"  {program} up\n\n"
        "or use SQL:\n\n"
        f'  {_PYTHON} -c "import sys; from namesrv_stream.analysis.ask import ask\n'
        f"print(ask(sys.argv[1], '{count}').to_pandas())\" {root}",
        markup=False,
    )
