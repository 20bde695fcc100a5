"""The churn report: one HTML page of plots and tables that loads nothing from elsewhere."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from textwrap import dedent
from typing import TYPE_CHECKING

import pyarrow as pa

from namesrv_stream.analysis import plots
from namesrv_stream.analysis.ask import Views, names_in, opened
from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, SnapshotGoneError, masked
from namesrv_stream.tables.root import Root

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GREATEST_OUTAGE = """
    SELECT first_gone_at, last_gone_at, brokers, which, broker_keys FROM shared_outage
    WHERE last_gone_at >= :since AND first_gone_at <= :until
    ORDER BY brokers DESC, first_gone_at"""
_PLOTS: dict[str, tuple[plots.Plot, str]] = {
    "Availability": (
        plots.availability_heat_map,
        "How much of its expected time on each day each broker was in the routes, in percent, rounded down: 100 is all "
        "of it. A cell without a number is at 100 or too narrow for one. White: nobody expected the broker.",
    ),
    "Sessions": (
        plots.up_down_timeline,
        "When each broker was in the routes. Marks have the colour of what ended the session; a number counts "
        "ends that lie together.",
    ),
    "Flapping": (plots.flapping_rank, "Who fell out unplanned, and was back at once."),
    "Time to expiry": (plots.time_to_expiry, "How long clients were still sent to a broker that was silent."),
    "Changes": (plots.changes_by_hour, "Everything that happened, by kind."),
}
_BROKERS = f"""
    SELECT cluster_name, broker_key, concat_ws(' ', broker_name, broker_id) AS broker,
           sum(greatest(0, up_until_millis - from_millis)) AS up_millis,
           sum(expected_until_millis - from_millis) AS expected_millis
    FROM ({plots.OF_PERIOD}) GROUP BY cluster_name, broker_key, broker_name, broker_id"""
_PERCENT = "floor(10000 * {} + 1e-6) / 100"
_ALL = _PERCENT.format("sum(up_millis) / sum(expected_millis)")
_LOWEST = _PERCENT.format("min(up_millis / expected_millis)")
_CLUSTERS = f"""
    SELECT cluster_name, count(*) AS brokers, {_ALL} AS availability_percent, {_LOWEST} AS lowest_percent,
           min_by(broker, (up_millis / expected_millis, broker_key)) AS of_broker
    FROM ({_BROKERS}) GROUP BY cluster_name ORDER BY cluster_name"""
_MAX_LINES = 100
_TABLES = {
    "Several brokers gone at once": f"""
        SELECT first_gone_at, last_gone_at, brokers, concat_ws(', ', which) AS which
        FROM ({_GREATEST_OUTAGE})""",
    "Brokers by zone at the greatest of these": f"""
        WITH outage AS ({_GREATEST_OUTAGE} LIMIT 1)
        SELECT coalesce(zone_name, 'none') AS zone, count(*) AS brokers_before,
               count(*) FILTER (WHERE array_contains(broker_keys, broker_key)) AS brokers_gone
        FROM outage
        JOIN broker_session ON from_time <= first_gone_at AND coalesce(to_time, last_gone_at) >= first_gone_at
        GROUP BY zone ORDER BY brokers_gone DESC, zone""",
    "Times without a tick": """
        SELECT event_time AS next_tick, CAST(floor(gap_millis / 1000) AS BIGINT) AS seconds
        FROM broker_event
        WHERE type = 'LOG_GAP' AND event_time BETWEEN :since AND :until
          AND event_month BETWEEN :first_month AND :last_month
        ORDER BY event_time DESC""",
    "Operator commands": """
        SELECT event_time, requested_by, command, broker_name, reason FROM operator_command
        WHERE event_time BETWEEN :since AND :until AND event_month BETWEEN :first_month AND :last_month
        ORDER BY event_time DESC""",
    "Rejected records": """
        SELECT reason, count(*) AS records, max(event_time) AS last_time FROM rejected_record
        WHERE event_time BETWEEN :since AND :until GROUP BY reason ORDER BY records DESC""",
}
_SUMMARY = (
    f"""
    SELECT concat('Brokers were in the routes ', {_ALL}, ' % of the time they were expected. The lowest was ',
                  min_by(concat_ws(' ', cluster_name, broker), (up_millis / expected_millis, broker_key)), ', with ',
                  {_LOWEST}, ' %.')
    FROM ({_BROKERS})""",
    f"""
    SELECT concat('The greatest outage took ', brokers, ' brokers together, from ',
                  substring(CAST(first_gone_at AS STRING), 1, 19), ' UTC on: ', concat_ws(', ', slice(which, 1, 6)),
                  IF(brokers > 6, ' and others', ''), '.')
    FROM ({_GREATEST_OUTAGE} LIMIT 1)""",
    """
    SELECT concat(cluster_name, ' ', broker_name, ' ', broker_id,
                  IF(count(*) FILTER (WHERE away_millis <= 600000) = 0, '', ' flapped most: it'),
                  ' fell out unplanned ', count(*),
                  IF(count(*) = 1, ' time, ', ' times, '), count(*) FILTER (WHERE away_millis <= 600000),
                  ' of them for less than ten minutes.')
    FROM outage WHERE gone_at BETWEEN :since AND :until
    GROUP BY cluster_name, broker_name, broker_id
    ORDER BY count(*) FILTER (WHERE away_millis <= 600000) DESC, count(*) DESC, cluster_name, broker_name, broker_id
    LIMIT 1""",
)
"""Queries of the three sentences at the top. A query without a row gives no sentence."""
_LONELY_TOPICS = "SELECT broker_name, count(*) AS topics FROM topic_with_one_broker GROUP BY 1 ORDER BY topics DESC, 1"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #212121; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 0.5rem 0 } img { max-width: 100% }
th, td { text-align: left; padding: 0.2rem 1.2rem 0.2rem 0; border-bottom: 1px solid #e0e0e0; vertical-align: top }
th, .time { white-space: nowrap } .number { text-align: right; font-variant-numeric: tabular-nums }
pre { font-size: 12px; overflow-x: auto } details { color: #616161 }
h2 { margin-top: 2.5rem; break-after: avoid } p { color: #616161; break-after: avoid } img, tr { break-inside: avoid }
"""


def churn_report(root: Root, since: datetime, until: datetime) -> str:
    """Return the period's HTML page.

    Raises NamesrvError if no broker was in the routes.
    """
    statements = [*_SUMMARY, _CLUSTERS, *_TABLES.values(), *(plot.statement for plot, _ in _PLOTS.values())]
    names = names_in(plots.KNOWN, *statements)
    with opened(root, only=names, kept=["broker_session", "shared_outage"]) as views:
        _require_brokers(views, since, until)
        since, until = plots.known_period(views, since, until)
        parts = [
            _summary(views, since, until),
            _table(views, "Clusters", _CLUSTERS, since, until),
            *_plot_parts(views, since, until),
            *(_table(views, heading, asked, since, until) for heading, asked in _TABLES.items()),
        ]
    parts.append(topics_at(root, until))
    title = f"Churn from {plots.period(since, until)}"
    made = (
        f"From the registry {masked(root.url)}, epoch {views.snapshot.epoch}, at {datetime.now(UTC):%Y-%m-%d %H:%M} "
        "UTC. docs/cookbook.md has more questions."
    )
    return (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f"<h1>{title}</h1><p>{html.escape(made)}</p>{''.join(parts)}</html>\n"
    )


def _summary(views: Views, since: datetime, until: datetime) -> str:
    found = [(row, asked) for asked in _SUMMARY for row in plots.answer(views, asked, since, until)[0].to_pylist()]
    shown = (f"<li>{html.escape(row)}{_query(plots.bounded(asked, since, until))}</li>" for row, asked in found if row)
    return f"<ul>{''.join(shown)}</ul>"


def _require_brokers(views: Views, since: datetime, until: datetime) -> None:
    statement = """
        WITH stretch AS (SELECT from_time, timestamp_millis(up_until_millis) AS up_until FROM broker_stretch)
        SELECT count(*) FILTER (WHERE from_time < :until AND up_until > :since) AS found,
               max(IF(up_until <= :since, up_until, NULL)) AS before,
               min(IF(from_time >= :until, from_time, NULL)) AS after
        FROM stretch"""
    [sessions] = plots.answer(views, statement, since, until).to_pylist()
    if since >= until or not sessions["found"]:
        raise NamesrvError(
            f"no broker was in the routes from {plots.period(since, until)}. "
            f"{_known(sessions['before'], sessions['after'])}."
        )


def _known(before: datetime | None, after: datetime | None) -> str:
    """Return when there were brokers, up to `before` and from `after` on: the nearest times around the period."""
    ends = [f"until {before:%Y-%m-%d %H:%M:%S}"] if before else []
    ends += [f"from {after:%Y-%m-%d %H:%M:%S} on"] if after else []
    return f"There were brokers {' and '.join(ends)}" if ends else "No broker has ever registered"


def _plot_parts(views: Views, since: datetime, until: datetime) -> Iterator[str]:
    for heading, (plot, words) in _PLOTS.items():
        figure = plot(views, since, until)
        sentence = plots.sentence_of(figure)
        shown = f"<p>{html.escape(sentence)}</p>" if sentence else f"<p>{words}</p>{_image(figure, words)}"
        yield f"<h2>{heading}</h2>{shown}{_query(plots.bounded(plot.statement, since, until))}"


def _image(figure: Figure, words: str) -> str:
    image = BytesIO()
    plots.lay_out(figure)
    figure.set_layout_engine("none")  # or else matplotlib draws all of it once more to lay it out
    figure.savefig(image, format="png")
    return f'<img alt="{words}" src="data:image/png;base64,{base64.b64encode(image.getvalue()).decode()}">'


def _query(statement: str) -> str:
    """Return the page's link to a statement, which unfolds it."""
    return f"<details><summary>query</summary><pre>{html.escape(dedent(statement).strip())}</pre></details>"


def topics_at(root: Root, end: datetime) -> str:
    """Return the page's part about topics on one broker name only, at the moment `end`."""
    heading = "Topics on one broker name only, at the end"
    try:
        with opened(root, at=end, only=["topic_with_one_broker"]) as views:
            return _table(views, heading, _LONELY_TOPICS, end, end)
    except (NoSuchSnapshotError, SnapshotGoneError) as error:
        return f"<h2>{heading}</h2><p>Not known: {html.escape(str(error))}</p>"


def _table(views: Views, heading: str, statement: str, since: datetime, until: datetime) -> str:
    """Return the first rows of the statement's result as an HTML table, with the statement to unfold below it."""
    found = plots.answer(views, statement, since, until)
    query = _query(plots.bounded(statement, since, until))
    if not len(found):
        return f"<h2>{heading}</h2><p>None.</p>{query}"
    classes = [_class(field.type) for field in found.schema]
    words = [name.replace("_", " ") for name in found.column_names]
    head = "".join(f'<th class="{of}">{name}</th>' for of, name in zip(classes, words, strict=True))
    rows = zip(*(map(_text, column.to_pylist()) for column in found[:_MAX_LINES].columns), strict=True)
    body = "".join(f"<tr>{_cells(classes, row)}</tr>" for row in rows)
    part = f"<p>{_MAX_LINES} of {len(found):,} are shown.</p>" if len(found) > _MAX_LINES else ""
    return f"<h2>{heading}</h2>{part}<table><tr>{head}</tr>{body}</table>{query}"


def _class(kind: pa.DataType) -> str:
    """Return the CSS class of a column."""
    if pa.types.is_temporal(kind):
        return "time"
    return "number" if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) else "text"


def _text(value: object) -> str | None:
    """Return a value as the page shows it, a time by the second in UTC."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _cells(classes: Iterable[str], texts: Iterable[str | None]) -> str:
    return "".join(f'<td class="{of}">{html.escape(text or "")}</td>' for of, text in zip(classes, texts, strict=True))
