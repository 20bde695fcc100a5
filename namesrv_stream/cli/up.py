"""`up`: the whole registry on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Group
from rich.table import Table

from namesrv_stream.cli.output import console, say
from namesrv_stream.config import Invocation
from namesrv_stream.errors import masked
from namesrv_stream.job.termination import stop_on_signals
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.tools.fleet.plan import FleetPlan
from namesrv_stream.tools.local.stack import LocalStack, own_kafka_port

DEFAULT_BROKERS = 8
_LOOK_EVERY_S = 1.0
_END_LIMIT_S = 8.0


@click.command("up")
@click.option(
    "--data", type=click.Path(path_type=Path), default=Path("data"), show_default=True, help="Folder of Kafka's data."
)
@click.option(
    "--brokers",
    type=click.IntRange(min=0),
    default=DEFAULT_BROKERS,
    show_default=True,
    help="Number of simulated brokers.",
)
@click.option(
    "--topics", type=click.IntRange(min=1), default=30, show_default=True, help="Topics of the simulated brokers."
)
@click.pass_obj
def up(invocation: Invocation, data: Path, brokers: int, topics: int) -> None:
    """Run Kafka, the streaming job, the gateway and simulated brokers on this machine; Ctrl-C ends them in order.

    Kafka listens at the address in kafka.bootstrap.servers, so all other commands find it without options.
    """
    settings = invocation.settings
    port = own_kafka_port(settings)
    stop = threading.Event()
    set_up_logging(log_format=settings.log_format)
    with _ended_in_time(stop) as watched, LocalStack(settings, data, port) as stack:
        watched.append(stack)
        stop_on_signals(stop)  # only after the start, which Ctrl-C may interrupt
        if brokers:
            stack.start_fleet(FleetPlan(brokers=brokers, topics=topics))
        console().print(_what_runs(stack))
        while not stop.wait(_LOOK_EVERY_S):
            stack.check()
    console().print(f"Ended in order. The tables stay in {masked(settings.delta_root)}.")


@contextmanager
def _ended_in_time(stop: threading.Event) -> Iterator[list[LocalStack]]:
    """End this process `_END_LIMIT_S` after `stop` if a part of the stack has died that the others wait for.

    Kafka and Spark's JVM end with this process. What is in the tables and in Kafka is whole at any moment.
    """
    watched: list[LocalStack] = []
    ended = threading.Event()

    def watch() -> None:
        stop.wait()
        if watched and watched[0].is_hurt and not ended.wait(_END_LIMIT_S):
            say("a part has died, so not all could be ended in order. Nothing that Kafka has accepted is lost.")
            os._exit(1)

    threading.Thread(target=watch, name="end", daemon=True).start()
    try:
        yield watched
    finally:
        ended.set()
        stop.set()


def _what_runs(stack: LocalStack) -> Group:
    grid = Table.grid(padding=(0, 2))
    grid.add_row("name server for RocketMQ", stack.gateway.address)
    grid.add_row("Kafka", stack.settings.kafka_bootstrap_servers)
    grid.add_row("tables", masked(stack.settings.delta_root))
    return Group(grid, "In another terminal: namesrv-stream status. Ctrl-C ends all of it.")
