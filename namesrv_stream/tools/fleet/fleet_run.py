"""The command `namesrv-stream fleet`: simulated brokers that load a Kafka as real ones do."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from namesrv_stream.config import Invocation, NamesrvSettings, kafka_client_arguments
from namesrv_stream.kafka.producer import HeartbeatProducer, Ticker
from namesrv_stream.kafka.topic import ensure_topic, wait_for_kafka
from namesrv_stream.reporting.progress_lines import progress
from namesrv_stream.tools.fleet.plan import Churn, FleetPlan
from namesrv_stream.tools.fleet.player import Fleet, Load

ACTING_MASTER_INTERVAL_MS = 1_000
ACTING_MASTER_TIMEOUT_MS = 10_000
REGISTER_BROKER_TIMEOUT_MS = 24_000
"""Longest time that a broker waits for a name server before it gives up a registration (B2)."""
LOAD_TIMEOUT_MS = 120_000


class ChurnType(click.ParamType[tuple[Churn, float]]):
    """KIND or KIND=RATE. RATE is a number of actions a minute, 1 if it is not given."""

    name = "KIND[=RATE]"

    def convert(
        self, value: str | tuple[Churn, float], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Churn, float]:
        """Return kind and rate, or end with click's usage error."""
        if isinstance(value, tuple):
            return value
        kind, given, rate = value.partition("=")
        if kind not in list(Churn):
            self.fail(f"{kind!r} is none of {', '.join(Churn)}", param, ctx)
        try:
            per_minute = float(rate) if given else 1.0
        except ValueError:
            per_minute = math.nan
        if not 0 < per_minute < math.inf:
            self.fail(f"{rate!r} is no number of actions a minute above 0", param, ctx)
        return Churn(kind), per_minute


@click.command("fleet")
@click.option(
    "--brokers",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Number of broker processes, slaves included.",
)
@click.option("--clusters", type=click.IntRange(1), default=1, show_default=True, help="Number of clusters.")
@click.option(
    "--slaves", "slaves_per_master", type=click.IntRange(0), default=1, show_default=True, help="Slaves of each master."
)
@click.option(
    "--topics", type=click.IntRange(0), default=30, show_default=True, help="Topics besides the brokers' own."
)
@click.option(
    "--zones",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Number of zones. Broker names are spread over them.",
)
@click.option("--period", type=float, default=30, show_default=True, help="Seconds between registrations: 10 to 60.")
@click.option(
    "--acting-master", is_flag=True, help="Set enableSlaveActingMaster: a heartbeat each second, leases of 10 s."
)
@click.option("--heartbeat-timeout", type=click.FloatRange(0.001), help="Seconds of the lease that brokers request.")
@click.option(
    "--start-over",
    type=click.FloatRange(0),
    default=10,
    show_default=True,
    help="Seconds over which the starts are spread.",
)
@click.option("--churn", type=ChurnType(), multiple=True, help=f"Failures. KIND: {', '.join(Churn)}; RATE: a minute.")
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds give equal records.")
@click.option("--duration", type=click.FloatRange(0), help="Seconds to run. Default: until Ctrl-C.")
@click.option(
    "--rate", type=click.FloatRange(0), help="Send this many records/s instead of following the clock; 0: no limit."
)
@click.option("--no-ticks", is_flag=True, help="Send no ticks: another process does.")
@click.option("--crash-at-end", is_flag=True, help="End without unregistering the brokers.")
@click.option("--bootstrap-server", help="Kafka's address, instead of kafka.bootstrap.servers.")
@click.option("--kafka-topic", help="Topic, instead of kafka.topic.")
@click.pass_obj
def fleet(  # noqa: PLR0913 - one argument an option, as click hands them over
    invocation: Invocation,
    /,
    *,
    period: float,
    start_over: float,
    heartbeat_timeout: float | None,
    acting_master: bool,
    churn: tuple[tuple[Churn, float], ...],
    duration: float | None,
    rate: float | None,
    no_ticks: bool,
    crash_at_end: bool,
    bootstrap_server: str | None,
    kafka_topic: str | None,
    **sizes: int,
) -> None:
    """Simulate brokers that register and heartbeat through Kafka."""
    options = {"kafka.bootstrap.servers": bootstrap_server, "kafka.topic": kafka_topic}
    given = {key: text for key, text in options.items() if text}
    settings = replace(invocation, options=invocation.options | given).settings
    timeout_ms = ACTING_MASTER_TIMEOUT_MS if acting_master else None
    plan = FleetPlan(
        **sizes,
        period_ms=round(period * 1_000),
        startup_ms=round(start_over * 1_000),
        acting_master=acting_master,
        heartbeat_interval_ms=ACTING_MASTER_INTERVAL_MS if acting_master else None,
        heartbeat_timeout_ms=round(heartbeat_timeout * 1_000) if heartbeat_timeout else timeout_ms,
        reconcile_interval_ms=settings.reconcile_interval_millis,
        churn=dict(churn),
    )
    duration_s = math.inf if duration is None else duration
    limit_ms = REGISTER_BROKER_TIMEOUT_MS if rate is None else LOAD_TIMEOUT_MS
    with (
        _producer(settings, limit_ms) as producer,
        nullcontext() if no_ticks else Ticker(producer, settings.tick_millis),
    ):
        if rate is None:
            _play(plan, producer, duration_s, unregister=not crash_at_end)
        else:
            _load(plan, producer, duration_s, rate, unregister=not crash_at_end)


@contextmanager
def _producer(settings: NamesrvSettings, delivery_timeout_ms: int) -> Iterator[HeartbeatProducer]:
    kafka = kafka_client_arguments(settings)
    _wait_until_interrupted(kafka)
    for warning in ensure_topic(kafka, settings.kafka_topic).warnings:
        click.echo(f"warning: {warning}", err=True)
    with HeartbeatProducer(kafka, settings.kafka_topic, delivery_timeout_ms=delivery_timeout_ms) as producer:
        yield producer


def _wait_until_interrupted(kafka: dict[str, Any]) -> None:
    """Wait until Kafka answers.

    Ctrl-C ends the wait between two attempts: an interrupt within an attempt would leave the client in a broken state.
    """
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        wait_for_kafka(kafka, given_up=interrupted)
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted.is_set():
        raise KeyboardInterrupt


def _play(plan: FleetPlan, producer: HeartbeatProducer, duration_s: float, *, unregister: bool) -> None:
    playing = Fleet(plan, producer)
    playing.start()
    with _shown(playing):
        playing.wait(None if math.isinf(duration_s) else duration_s)
    playing.stop(unregister=unregister)
    _print_end(playing)


def _load(plan: FleetPlan, producer: HeartbeatProducer, duration_s: float, rate: float, *, unregister: bool) -> None:
    load = Load(plan, producer, records_per_s=rate or None)
    with _shown(load):
        load.run(duration_s * 1_000)
    load.stop(unregister=unregister)
    _print_end(load)


@contextmanager
def _shown(source: Fleet | Load) -> Iterator[None]:
    """Show progress until the body ends or is interrupted by Ctrl-C or SIGTERM, which count as an ordinary end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _display(source):
            yield
    except KeyboardInterrupt:
        click.echo("ending", err=True)


def _display(source: Fleet | Load) -> AbstractContextManager[object]:
    """Return a table that changes in place on a terminal, and a line every ten seconds elsewhere."""
    console = Console(stderr=True)
    if console.is_terminal:
        return Live(console=console, get_renderable=_progress(source), refresh_per_second=1, transient=True)
    return progress("fleet", lambda: _line(source))


def _line(source: Fleet | Load) -> str:
    counts, brokers = source.counts(), source.brokers()
    up = sum(broker.up for broker in brokers)
    return f"{up} of {len(brokers)} brokers up, {counts.acknowledged:,} records in Kafka, {counts.failed} failed"


def _progress(source: Fleet | Load) -> Callable[[], Table]:
    started_s = shown_s = time.monotonic()
    shown_records = 0

    def table() -> Table:
        nonlocal shown_s, shown_records
        counts, now_s = source.counts(), time.monotonic()
        per_second = (counts.acknowledged - shown_records) / max(now_s - shown_s, 0.001)
        shown_s, shown_records = now_s, counts.acknowledged
        brokers = source.brokers()
        grid = Table.grid(padding=(0, 2))
        grid.add_row("time", f"{now_s - started_s:.0f} s")
        grid.add_row("brokers", f"{sum(broker.up for broker in brokers)} up of {len(brokers)}")
        grid.add_row("records", f"{counts.acknowledged:,} in Kafka, {per_second:,.0f}/s")
        grid.add_row("", f"{counts.on_their_way} on their way, {counts.failed} failed, {counts.held_back} held back")
        for kind, times in source.happened().items():
            grid.add_row(kind, f"{times}")
        return grid

    return table


def _print_end(source: Fleet | Load) -> None:
    counts = source.counts()
    churn = ", ".join(f"{times} x {kind}" for kind, times in source.happened().items()) or "no churn"
    click.echo(f"{counts.acknowledged} records in Kafka, {counts.failed} failed; {churn}")
