"""Read the history of one topic.

If a line has only the number of changed topics, the tables before and after it are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from namesrv_stream.history.events import EVERYTHING, Span, quoted, recorded_counts, recorded_rows, topic_events
from namesrv_stream.rules.history import as_json_row
from namesrv_stream.rules.registry import CAUSES
from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.as_of import AsOf, Past, as_of
from namesrv_stream.tables.damage import naming_damage
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import TOPIC, TOPIC_MAPPING, TableSpec
from namesrv_stream.tables.snapshots import Snapshots

EPOCHS_LOOKED_INTO = 50
"""Most epochs with count-only lines for which the tables are read, the newest first. Each reads one or two rows."""

ONE_OF_SEVERAL = ""
"""`cause` of a line that stands for several count-only lines of one epoch and has their joint effect."""

TopicRowFields = dict[str, Any] | None
"""The topic's row of one table and broker name as a JSON object, None if there is no row."""


class _RowsAt(NamedTuple):
    """The topic's rows at an epoch, by broker name. `unknown` are broker names of which they may not be right."""

    rows: dict[str, dict[str, Any]]
    unknown: Collection[str]


class TopicHistory(NamedTuple):
    """The lines of one topic, and those that may concern it.

    `lines` concern the topic, in order of the log. A line that had only a count has the topic's rows from the tables
    around it as `before` and `after`. `uncertain` are lines with a count for which the tables do not show whether the
    count includes the topic. There are three causes: no snapshot is kept from which the tables can be made, the lines
    are older than the newest EPOCHS_LOOKED_INTO epochs, or several lines of one epoch left the topic as it was.
    """

    lines: list[BrokerEventRow]
    uncertain: list[BrokerEventRow]


def topic_history(root: Root, snapshot: SnapshotRow, topic: str, span: Span = EVERYTHING) -> TopicHistory:
    """Return the history of a topic within a stretch of time, up to a snapshot."""
    events = topic_events(root, snapshot, topic, span)
    named, uncertain = [line for line in events if _names(topic, line)], list[BrokerEventRow]()
    snapshots = Snapshots(root)
    for spec in (TOPIC, TOPIC_MAPPING):
        counting = {line.epoch for line in events if _counts(spec, line)}
        looked_into = sorted(counting)[-EPOCHS_LOOKED_INTO:]
        rows_at = cache(lambda epoch, spec=spec: _rows_at(root, spec, as_of(root, snapshots, AsOf(epoch)), topic))
        found = _as_tables_show(spec, topic, [line for line in events if line.epoch in looked_into], rows_at)
        named += found.lines
        uncertain += [line for line in events if _counts(spec, line) and line.epoch not in looked_into]
        uncertain += found.uncertain
    return TopicHistory(
        *(sorted(filter(span.holds, lines), key=attrgetter("epoch", "seq")) for lines in (named, uncertain))
    )


def _as_tables_show(
    spec: TableSpec,
    topic: str,
    events: Iterable[BrokerEventRow],
    rows_at: Callable[[int], _RowsAt],
) -> TopicHistory:
    """Return the effect on the topic of lines with a count, as the tables around them show it.

    `events` are all events of each epoch. `rows_at` returns the topic's rows at an epoch.
    """
    found = TopicHistory([], [])
    for (epoch, name), lines in groupby(sorted(events, key=_epoch_and_name), _epoch_and_name):
        before, after = rows_at(epoch - 1), rows_at(epoch)
        if name in before.unknown or name in after.unknown:
            found.uncertain.extend(line for line in lines if _counts(spec, line))
            continue
        for run, was, became in _runs(spec, topic, lines, before.rows.get(name), after.rows.get(name)):
            if was != became:
                cause = run[0].cause if len(run) == 1 else ONE_OF_SEVERAL
                found.lines.append(run[-1]._replace(cause=cause, before=_side(spec, was), after=_side(spec, became)))
            elif len(run) > 1 and (was or _may_come_and_go(run)):
                found.uncertain.extend(run)
    return found


def _runs(
    spec: TableSpec,
    topic: str,
    lines: Iterable[BrokerEventRow],
    before: TopicRowFields,
    after: TopicRowFields,
) -> Iterator[tuple[list[BrokerEventRow], TopicRowFields, TopicRowFields]]:
    """Yield lines with a count between two moments at which the topic's row is known, and that row at both moments.

    The row is known in the tables around the epoch, and at a line that names the topic. It is also known after the
    end of a broker name's last lease, which removes all its topics (U3).
    """
    run: list[BrokerEventRow] = []
    for line in lines:
        is_counting = _counts(spec, line)
        if is_counting:
            run.append(line)
        was, became = (_row_named(spec, topic, side) for side in (line.before, line.after))
        is_last_end = is_counting and line.after is None and line.cause in CAUSES.values()
        if was or became or is_last_end:
            if run:
                yield run, before, was
            run, before = [], became
    if run:
        yield run, before, after


def _may_come_and_go(run: Sequence[BrokerEventRow]) -> bool:
    """Return whether a topic that is absent before and after the lines may have existed between two of them.

    A line with both sides may add and remove topics only if a registration caused it (T5), not if a change of
    permissions did.
    """
    both_ways = [line.cause == "REGISTER_BROKER" for line in run]
    brings = [index for index, line in enumerate(run) if line.after and (not line.before or both_ways[index])]
    takes = [index for index, line in enumerate(run) if line.before and (not line.after or both_ways[index])]
    return bool(brings and takes) and brings[0] < takes[-1]


def _names(topic: str, line: BrokerEventRow) -> bool:
    """Return whether the line names the topic: it has a row of the topic, or is a command on it without effect.

    The line of such a command has no count.
    """
    has_row = any(
        _row_named(spec, topic, side) for spec in (TOPIC, TOPIC_MAPPING) for side in (line.before, line.after)
    )
    return has_row or not any(_counts(spec, line) for spec in (TOPIC, TOPIC_MAPPING))


def _counts(spec: TableSpec, line: BrokerEventRow) -> bool:
    return spec.name in recorded_counts(line.before) or spec.name in recorded_counts(line.after)


def _row_named(spec: TableSpec, topic: str, side: str | None) -> TopicRowFields:
    return next((row for row in recorded_rows(side).get(spec.name, ()) if row["topic"] == topic), None)


def _rows_at(root: Root, spec: TableSpec, past: Past, topic: str) -> _RowsAt:
    version = past.base.versions[spec.name]
    with naming_damage(root, spec, version):
        stored = select(root.open_past(spec, version)[1], spec, f"topic = {quoted(topic)}")
    rows = rows_from_arrow(spec, past.applied_to(spec, stored))
    return _RowsAt({row.broker_name: as_json_row(row) for row in rows if row.topic == topic}, past.unlisted)


def _side(spec: TableSpec, row: TopicRowFields) -> str | None:
    """Return the row as `before` or `after` of a line holds it."""
    return None if row is None else msgspec.json.encode({spec.name: [row]}).decode()


def _epoch_and_name(line: BrokerEventRow) -> tuple[int, str]:
    return line.epoch, line.broker_name or ""
