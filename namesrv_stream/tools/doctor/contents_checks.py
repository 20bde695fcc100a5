"""Checks of what the tables hold: names that look alike, and order configurations that clients cannot read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NoSuchSnapshotError, NotARegistryError
from namesrv_stream.rules.commands import order_problem
from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE, RouteTables
from namesrv_stream.rules.topic_names import look_alikes
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tools.doctor.finding import Finding

_MOST_NAMED = 10


def check_contents(settings: NamesrvSettings) -> Iterator[Finding]:
    """Read the newest snapshot and judge its names and its order configurations."""
    try:
        tables = RouteReader(settings.delta_root, settings.storage_options or None).open().routes
    except (NotARegistryError, NoSuchSnapshotError):
        return
    yield from _names(tables)
    yield from _order_configs(tables)


def _names(tables: RouteTables) -> Iterator[Finding]:
    found = 0
    for kind, names in (("cluster", tables.clusters), ("broker", tables.brokers), ("topic", tables.queues)):
        groups = look_alikes(names)
        found += len(groups)
        for group in groups[:_MOST_NAMED]:
            shown = ", ".join(f"{name!a}" for name in group)
            what = f"{kind} names that look alike: {shown}" if len(group) > 1 else f"{kind} name with a blank: {shown}"
            yield Finding("names", "warning", what, "Correct the broker's file, or the topic, that has the wrong one.")
    if not found:
        yield Finding("names", "ok", "no names of clusters, brokers or topics look alike")


def _order_configs(tables: RouteTables) -> Iterable[Finding]:
    table = tables.kv.get(ORDER_TOPIC_NAMESPACE, {})
    problems = {topic: problem for topic, value in table.items() if (problem := order_problem(value))}
    for topic, problem in list(problems.items())[:_MOST_NAMED]:
        next_step = f"`namesrv-stream updateKvConfig -s {ORDER_TOPIC_NAMESPACE} -k {topic}` puts another value."
        yield Finding("order configuration", "failed", f"of topic {topic}: {problem}", next_step)
    if not problems:
        yield Finding("order configuration", "ok", f"{len(table)} values of {ORDER_TOPIC_NAMESPACE} can be read")
