"""The command `fleet`: simulate brokers that load a Kafka as real ones do, or make a registry with their past."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.live import Live
from rich.text import Text

from namesrv_stream.cli.output import console, say
from namesrv_stream.config import Invocation, NamesrvSettings, kafka_client_arguments
from namesrv_stream.kafka.producer import HeartbeatProducer, Ticker
from namesrv_stream.kafka.topic import ensure_topic, wait_for_kafka
from namesrv_stream.reporting.logs import progress
from namesrv_stream.tools.fleet.broker import ChurnKind, FleetPlan
from namesrv_stream.tools.fleet.history import DAY_MS, MINUTE_MS, SHAPE, Chronicle, chronicle_plan, publish_history
from namesrv_stream.tools.fleet.player import Fleet

_ACTING_MASTER_INTERVAL_MS = 1_000
_ACTING_MASTER_TIMEOUT_MS = 10_000
_REGISTER_BROKER_TIMEOUT_MS = 24_000
"""Longest time that a broker waits for a name server before it gives up a registration (B2)."""
_LOAD_TIMEOUT_MS = 120_000
_LONGEST_DAYS = 3660
_MIN_BATCH_HOURS, _MAX_BATCH_HOURS = 0.05, 744
_SHAPE = ("brokers", "clusters", "slaves_per_master", "topics", "zones")
_WITH_HISTORY = (*_SHAPE, "seed", "history_days", "out", "batch_hours")


def churn(text: str) -> tuple[ChurnKind, float]:
    """Return kind and rate of KIND or KIND=RATE: a number of actions a minute, 1 if it is not given."""
    kind, given, rate = text.partition("=")
    if kind not in list(ChurnKind):
        raise click.BadParameter(f"unknown kind {kind!r}. Use {', '.join(ChurnKind)}.")
    try:
        per_minute = float(rate) if given else 1.0
    except ValueError:
        per_minute = math.nan
    if not 0 < per_minute < math.inf:
        raise click.BadParameter(f"invalid rate {rate!r}. Use a number of actions a minute above 0.")
    return ChurnKind(kind), per_minute


def _number(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    """Return `value`, or raise BadParameter if it is nan, which click accepts in every range."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("expected a number, not nan.")
    return value


_FEWEST_0, _FEWEST_1, _SECONDS = click.IntRange(0), click.IntRange(1), click.FloatRange(0)
_PERIOD_S = click.FloatRange(10, 60)
_DAYS = click.FloatRange(0, _LONGEST_DAYS, min_open=True)
_HOURS = click.FloatRange(_MIN_BATCH_HOURS, _MAX_BATCH_HOURS)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_PAST_SHAPE = ", ".join(f"--{name} {count}" for name, count in SHAPE.items())


@click.command("fleet")
@click.option("--brokers", type=_FEWEST_1, default=8, help="Number of brokers, slaves included.")
@click.option("--clusters", type=_FEWEST_1, default=1, help="Number of clusters.")
@click.option("--slaves", "slaves_per_master", type=_FEWEST_0, default=1, help="Slaves of each master.")
@click.option("--topics", type=_FEWEST_0, default=30, help="Number of topics, without system topics.")
@click.option("--zones", type=_FEWEST_0, default=0, help="Number of zones for the broker groups.")
@click.option("--period", type=_PERIOD_S, callback=_number, default=30, help="Seconds between registrations.")
@click.option("--acting-master", is_flag=True, help="Set enableSlaveActingMaster (heartbeat 1 s, timeout 10 s).")
@click.option("--heartbeat-timeout", type=click.FloatRange(0.001), help="Heartbeat timeout of brokers, in seconds.")
@click.option("--start-over", type=_SECONDS, default=10, help="Spread the starts over this many seconds.")
@click.option(
    "--churn",
    type=churn,
    multiple=True,
    metavar="KIND[=RATE]",
    help=f"Failures: {', '.join(ChurnKind)}; RATE a minute.",
)
@click.option("--seed", type=int, default=0, help="Equal seeds give equal records.")
@click.option("--duration", type=_SECONDS, help="Seconds to run (default: until Ctrl-C).")
@click.option("--rate", type=_SECONDS, help="Send this many records per second; 0 is no limit.")
@click.option("--no-ticks", is_flag=True, help="Do not send clock ticks; another process does.")
@click.option("--crash-at-end", is_flag=True, help="Stop without unregistering the brokers.")
@click.option("--bootstrap-server", help="Address of Kafka (default: kafka.bootstrap.servers).")
@click.option("--kafka-topic", help="Kafka topic (default: kafka.topic).")
@click.option(
    "--history",
    "history_days",
    type=_DAYS,
    callback=_number,
    metavar="DAYS",
    help=f"Create a registry with this many days of history, then stop. Default: {_PAST_SHAPE}.",
)
@click.option("--out", type=_FOLDER, default=Path("data/history"), help="Folder that --history creates.")
@click.option("--batch-hours", type=_HOURS, callback=_number, default=1.0, help="Hours of --history in one snapshot.")
@click.pass_context
def fleet(context: click.Context, /, history_days: float | None, out: Path, batch_hours: float, **options: Any) -> None:
    """Simulate brokers that register and heartbeat through Kafka."""
    if history_days is None:
        _run(context.obj, **options)
        return
    given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if useless := [name for name in given if name not in _WITH_HISTORY]:
        raise click.UsageError(f"--{useless[0].replace('_', '-')} has no effect with --history.")
    shape = {name: options[name] for name in _SHAPE if name in given}
    _make_history(history_days, options["seed"], shape, out, batch_hours)


def _make_history(days: float, seed: int, shape: dict[str, Any], out: Path, batch_hours: float) -> None:
    end_ms = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
    chronicle = Chronicle(chronicle_plan(seed, **shape), end_ms - round(days * DAY_MS), days)
    with progress("namesrv-stream", "no record yet") as shown:
        publish_history(chronicle.records(), out, round(chronicle.records_an_hour * batch_hours), say, shown)
    say(f"the history is in {out}: namesrv-stream --root {out} history")


def _run(  # noqa: PLR0913 - one argument an option
    invocation: Invocation,
    *,
    period: float,
    start_over: float,
    heartbeat_timeout: float | None,
    acting_master: bool,
    churn: tuple[tuple[ChurnKind, float], ...],
    duration: float | None,
    rate: float | None,
    no_ticks: bool,
    crash_at_end: bool,
    bootstrap_server: str | None,
    kafka_topic: str | None,
    **sizes: int,
) -> None:
    options = {"kafka.bootstrap.servers": bootstrap_server, "kafka.topic": kafka_topic}
    given = {key: text for key, text in options.items() if text}
    settings = replace(invocation, options=invocation.options | given).settings
    timeout_ms = _ACTING_MASTER_TIMEOUT_MS if acting_master else None
    plan = FleetPlan(
        **sizes,
        period_ms=round(period * 1_000),
        startup_ms=round(start_over * 1_000),
        acting_master=acting_master,
        heartbeat_interval_ms=_ACTING_MASTER_INTERVAL_MS if acting_master else None,
        heartbeat_timeout_ms=round(heartbeat_timeout * 1_000) if heartbeat_timeout else timeout_ms,
        churn=dict(churn),
    )
    limit_ms = _REGISTER_BROKER_TIMEOUT_MS if rate is None else _LOAD_TIMEOUT_MS
    with (
        _producer(settings, limit_ms, math.inf if duration is None else duration) as producer,
        nullcontext() if no_ticks else Ticker(producer, settings.tick_millis),
    ):
        _play(Fleet(plan, producer), duration, rate, unregister=not crash_at_end)


@contextmanager
def _producer(settings: NamesrvSettings, delivery_timeout_ms: int, kafka_limit_s: float) -> Iterator[HeartbeatProducer]:
    kafka = kafka_client_arguments(settings)
    _wait_until_interrupted(kafka, kafka_limit_s)
    for warning in ensure_topic(kafka, settings.kafka_topic).warnings:
        click.echo(f"warning: {warning}", err=True)
    with HeartbeatProducer(kafka, settings.kafka_topic, delivery_timeout_ms=delivery_timeout_ms) as producer:
        yield producer


def _wait_until_interrupted(kafka: dict[str, Any], limit_s: float) -> None:
    """Wait until Kafka answers. Raises KafkaUnreachableError as `wait_for_kafka` does.

    Ctrl-C ends the wait between two attempts: an interrupt within an attempt would leave the client in a broken state.
    """
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        wait_for_kafka(kafka, limit_s, given_up=interrupted)
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted.is_set():
        raise KeyboardInterrupt


def _play(playing: Fleet, duration_s: float | None, rate: float | None, *, unregister: bool) -> None:
    """Play the fleet until its duration has passed, or Ctrl-C or SIGTERM, which count as an ordinary end.

    The brokers are unregistered even if whoever read this process's output has gone.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _display(playing):
            if rate is None:
                playing.start()
                playing.wait(duration_s)
            else:
                playing.play_faster(math.inf if duration_s is None else duration_s * 1_000, rate or None)
    except (KeyboardInterrupt, BrokenPipeError):  # the latter of the display
        with suppress(OSError):
            click.echo("stopping", err=True)
    playing.stop(unregister=unregister, limit_s=10.0 if rate is None else None)
    counts = playing.counts
    click.echo(f"{counts.acknowledged} records in Kafka, {counts.failed} failed; {_churn(playing)}")


def _display(playing: Fleet) -> AbstractContextManager[object]:
    """Return a display: a line that changes in place on a terminal, elsewhere a line every ten seconds."""
    output = console(stderr=True)
    if output.is_terminal:
        return Live(console=output, get_renderable=lambda: Text(_line(playing)), refresh_per_second=1, transient=True)
    return progress("fleet", lambda: _line(playing))


def _line(playing: Fleet) -> str:
    counts, brokers = playing.counts, playing.brokers()
    up = sum(broker.up for broker in brokers)
    return (
        f"{up} of {len(brokers)} brokers up, {counts.acknowledged:,} records in Kafka, {counts.on_their_way:,} in "
        f"flight, {counts.failed} failed; {_churn(playing)}"
    )


def _churn(playing: Fleet) -> str:
    return ", ".join(f"{times} x {kind}" for kind, times in playing.happened().items()) or "no churn"
