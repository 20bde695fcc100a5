"""`status`: one screen that says what runs, what is served and how far behind it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from namesrv_stream.cli.output import counted, duration_text, heading, iso_text, time_text
from namesrv_stream.cli.view import Answer, Served, View, root_of, show, view_options
from namesrv_stream.config import Invocation, NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import NamesrvError
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import REJECTED
from namesrv_stream.wire.json_text import encode_json

_KAFKA_LIMIT_MS = 2_000


class Lag(NamedTuple):
    """Records on Kafka that the newest snapshot does not hold yet; None and the reason where Kafka does not say."""

    records: int | None
    problem: str | None = None


@click.command("status")
@click.option("--no-kafka", is_flag=True, help="Do not ask Kafka how far behind the tables are.")
@view_options(as_of=False)
@click.pass_obj
def status(invocation: Invocation, no_kafka: bool, view: View) -> None:
    """What runs, what is served, how old it is, and how far behind Kafka."""
    settings, root = invocation.settings, root_of(invocation.settings)

    def answer(served: Served) -> Answer:
        lag = Lag(None, "not asked") if no_kafka else _lag(settings, served)
        facts = _facts(served, lag, root)
        return Answer(encode_json(facts), lambda _plain: _shown(served, lag, facts, settings))

    show(invocation, view, answer)


def _lag(settings: NamesrvSettings, served: Served) -> Lag:
    from namesrv_stream.kafka.topic import end_offsets  # noqa: PLC0415  # kafka only where it is asked

    limits = {"bootstrap_timeout_ms": _KAFKA_LIMIT_MS}
    try:
        ends = end_offsets(limits | kafka_client_arguments(settings), settings.kafka_topic)
    except NamesrvError as error:
        return Lag(None, str(error))
    if not ends:
        return Lag(None, f"Kafka at {settings.kafka_bootstrap_servers} has no topic {settings.kafka_topic}.")
    behind = [end - served.snapshot.offsets.get(partition, 0) for partition, end in ends.items()]
    if min(behind) < 0:
        return Lag(None, f"the tables are ahead of {settings.kafka_topic}: they are of another topic or another Kafka.")
    return Lag(sum(behind))


def _facts(served: Served, lag: Lag, root: Root) -> dict[str, object]:
    snapshot, tables = served.snapshot, served.tables
    return {
        "root": root.url,
        "epoch": snapshot.epoch,
        "term": snapshot.term,
        "runId": snapshot.run_id,
        "queryId": snapshot.query_id,
        "batchId": snapshot.batch_id,
        "eventTime": iso_text(snapshot.event_time),
        "publishedAt": iso_text(snapshot.published_at),
        "ageMillis": served.age_ms,
        "stale": served.is_stale,
        "recordsBehind": lag.records,
        "kafka": lag.problem or "reachable",
        "clusters": len(tables.clusters),
        "brokerNames": len(tables.brokers),
        "liveAddresses": len(tables.live),
        "topics": len(tables.queues),
        "rejectedRecords": _row_count(root, snapshot.versions[REJECTED.name]),
        "changedSettings": dict(tables.namesrv_config),
    }


def _row_count(root: Root, version: int) -> int:
    """Of `rejected`, from the statistics of its files."""
    return int(root.open(REJECTED, version).count())


def _shown(served: Served, lag: Lag, facts: dict[str, object], settings: NamesrvSettings) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in _lines(served, lag, facts, settings):
        grid.add_row(name, value)
    return Group(heading("Registry", str(facts["root"])), grid)


def _lines(served: Served, lag: Lag, facts: dict[str, object], settings: NamesrvSettings) -> Iterator[tuple[str, Text]]:
    snapshot, tables = served.snapshot, served.tables
    yield "job", _job(served)
    batch = "no batch yet" if snapshot.batch_id is None else f"batch {snapshot.batch_id}"
    yield "", Text(f"run {snapshot.run_id}, term {snapshot.term}, {batch}")
    yield (
        "serves",
        Text(
            f"epoch {snapshot.epoch}, published {time_text(snapshot.published_at)}, event time "
            f"{time_text(snapshot.event_time)}"
        ),
    )
    yield "behind Kafka", _behind(lag)
    yield "clusters", Text(", ".join(sorted(tables.clusters)) or "none")
    yield "brokers", Text(f"{counted(len(tables.brokers), 'name')}, {counted(len(tables.live), 'live address')}")
    yield "topics", Text(f"{len(tables.queues):,}")
    if facts["rejectedRecords"]:
        yield "rejected", Text(f"{facts['rejectedRecords']} records: see the table rejected", "yellow")
    if tables.namesrv_config:
        yield "changed", Text(", ".join(f"{key}={value}" for key, value in sorted(tables.namesrv_config.items())))
    yield "Kafka", Text(f"{settings.kafka_bootstrap_servers}, topic {settings.kafka_topic}")


def _job(served: Served) -> Text:
    age = duration_text(served.age_ms)
    if served.is_stale:
        return Text(f"not running: nothing published for {age} although brokers are live", "bold red")
    if not served.tables.live:
        return Text(f"no broker is live; last published {age} ago", "yellow")
    return Text(f"publishing; newest snapshot {age} old", "green")


def _behind(lag: Lag) -> Text:
    if lag.records is None:
        return Text(f"unknown: {lag.problem}", "yellow")
    return Text(
        "nothing" if lag.records == 0 else f"{counted(lag.records, 'record')} since that snapshot, ticks included"
    )
