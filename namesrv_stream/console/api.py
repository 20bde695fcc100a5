"""The HTTP API about any moment. Every answer about the tables is made from one snapshot and names it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from namesrv_stream.console import answers, glance, models, period_models, periods
from namesrv_stream.console.hub import route_json
from namesrv_stream.console.moments import moment_up_to, span_up_to, time_at
from namesrv_stream.console.problems import BadQuestionError, NoSuchNameError
from namesrv_stream.console.questions import (
    After,
    Asked,
    Containing,
    Limit,
    Name,
    Question,
    Since,
    Until,
    Wanted,
    check_parameters,
)
from namesrv_stream.console.told import row_fields, told
from namesrv_stream.errors import did_you_mean
from namesrv_stream.history.diff import Difference
from namesrv_stream.history.events import newest_events, recorded_names
from namesrv_stream.history.fields import snapshot_fields
from namesrv_stream.history.story import story_of, topic_story
from namesrv_stream.history.topics import topic_history
from namesrv_stream.rules.rows import BrokerEventRow
from namesrv_stream.tables.reader import RegistryView
from namesrv_stream.texts import iso_text

MOST_SUGGESTED = 2_000
"""Most topics among which the nearest name is looked for."""

_MANY_ROWS = ("topic", "topic_mapping")
"""Tables whose differences come last: a broker that leaves takes a row of each of its topics with it."""

router = APIRouter(prefix="/v1", dependencies=[Depends(check_parameters)])


@router.get("/overview", summary="A moment at a glance: what is wrong, clusters and zones, the last hour's events")
def overview(asked: Asked) -> Response:
    """Return what is wrong, the clusters and zones as numbers, brokers that are gone, and the last hour's events."""
    return asked.answer(lambda view: glance.overview(asked.console.root, view))


@router.get("/topics", summary="All topics, by name")
def topics(
    asked: Asked,
    limit: Limit = 100,
    after: After = "",
    q: Containing = "",
    system: Annotated[bool, Query(description="With the topics that brokers make by themselves.")] = True,
) -> Response:
    """Return topics in order of their names."""
    return asked.answer(
        lambda view: answers.topic_page(view, limit=limit, after=after, containing=q, with_system=system)
    )


@router.get("/topics/{topic:path}", summary="The route of a topic, as clients get it")
def topic(
    asked: Asked, topic: Name, zone: Annotated[str | None, Query(description="As a client of this zone.")] = None
) -> Response:
    """Return RocketMQ's TopicRouteData in `route`, and the leases of the route's brokers."""

    def compute(view: RegistryView) -> dict[str, object]:
        route = route_json(view, asked.console.in_force(view), topic, zone)
        if route == b"null":
            raise NoSuchNameError("topic with a route", topic, view.snapshot.epoch, _nearest_topic(view, topic))
        brokers = answers.brokers_of(view, (row.broker_name for row in view.routes.queues[topic]))
        shown = answers.moment_fields(view.snapshot)
        return {"snapshot": shown, "topic": topic, "route": msgspec.Raw(route), "brokers": brokers}

    return asked.answer(compute)


def _nearest_topic(view: RegistryView, topic: str) -> str:
    queues = view.routes.queues
    return did_you_mean(topic, queues) if len(queues) <= MOST_SUGGESTED else ""


@router.get("/brokers", summary="Every broker address with a lease")
def brokers(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    wanted: Wanted,
    limit: Limit = 100,
    after: After = "",
    sort: Annotated[
        str, Query(description="address, name, cluster, zone, state, silent, since or topics; with - the other way.")
    ] = "address",
    state: Annotated[models.State | None, Query(description="Only those in this state.")] = None,
) -> Response:
    """Return leases; addresses and names are in natural order, a-2 before a-10."""
    return asked.answer(
        lambda view: answers.brokers_page(view, limit=limit, after=after, order=sort, chosen=wanted, state=state)
    )


@router.get("/gone", summary="Broker addresses that left within the last hour")
def gone(asked: Asked, wanted: Wanted, limit: Limit = 100, after: After = "") -> Response:
    """Return the addresses that have no lease any more, newest first."""
    return asked.answer(lambda view: glance.gone_page(asked.console.root, view, limit, after, wanted))


@router.get("/brokers/{name:path}", summary="One broker name or address")
def broker(asked: Asked, name: Name, limit: Limit = 200, after: After = "") -> Response:
    """Return the leases of a broker name or address, and its topics. A broker that is gone has none of both."""

    def compute(view: RegistryView) -> models.BrokerNamePageFields:
        lease = view.routes.live.get(name)
        broker_name = lease.broker_name if lease else name
        leases = answers.brokers_of(view, [broker_name])
        shown = [each for each in leases if lease is None or each["brokerAddr"] == name]
        if not shown and broker_name not in view.routes.brokers:
            _check_known(asked, view, name)
        page = answers.topics_of_broker(view, broker_name, limit, after)
        return {
            "snapshot": answers.moment_fields(view.snapshot),
            "brokerName": broker_name,
            "brokers": shown,
            "total": page.total,
            "topics": page.topics,
            "next": page.next,
        }

    return asked.answer(compute)


def _check_known(asked: Question, view: RegistryView, name: str) -> None:
    ever = recorded_names(asked.console.root, view.snapshot)
    if name not in ever:
        raise NoSuchNameError("broker", name, view.snapshot.epoch, did_you_mean(name, ever))


@router.get("/clusters", summary="Clusters, their broker names, and who holds each id")
def clusters(asked: Asked) -> Response:
    """Return all clusters."""
    return asked.answer(
        lambda view: {"snapshot": answers.moment_fields(view.snapshot), "clusters": answers.clusters(view)},
    )


@router.get("/events", summary="Lines of the history, newest last, each with its sentence")
def events(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    broker: Annotated[str | None, Query(description="Only of this broker name or address.")] = None,
    topic: Annotated[str | None, Query(description="Only of this topic.")] = None,
    since: Since = None,
    until: Until = None,
    before: Annotated[
        str | None, Query(pattern=r"^\d{1,15}\.\d{1,15}$", description="Before this place: `next` of the page before.")
    ] = None,
    limit: Limit = 100,
) -> Response:
    """Return the newest events up to the moment; go further back with `before` or `until`."""

    def compute(view: RegistryView) -> dict[str, object]:
        lines = lines_of(view)[-(limit + 1) :]
        following = f"{lines[1].epoch}.{lines[1].seq}" if len(lines) > limit else None
        shown = [told(line) for line in lines[-limit:]]
        return {"snapshot": answers.moment_fields(view.snapshot), "events": shown, "next": following}

    def lines_of(view: RegistryView) -> Sequence[BrokerEventRow]:
        row, root = view.snapshot, asked.console.root
        span = span_up_to(row, since, until, asked.zone)
        place = _place(before)
        if topic is None:
            lines = newest_events(root, row, broker, span, limit + 1, below=place)
            if not lines and broker is not None:
                _check_known(asked, view, broker)
            return lines
        found = topic_history(root, row, topic, span).lines
        if not found and topic_story(root, row, topic, span, view.routes.queues) is None:
            raise NoSuchNameError("topic", topic, row.epoch, _nearest_topic(view, topic))
        return [line for line in found if place is None or (line.epoch, line.seq) < place]

    return asked.answer(compute)


def _place(text: str | None) -> tuple[int, int] | None:
    """Return the place of an event, epoch and number."""
    if text is None:
        return None
    epoch, _, seq = text.partition(".")
    return int(epoch), int(seq)


@router.get("/why/{name:path}", summary="The story of a broker or a topic, in sentences")
def why(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    name: Name,
    since: Since = None,
    until: Until = None,
    is_topic: Annotated[
        bool, Query(alias="topic", description="Take the name for a topic also where a broker has it.")
    ] = False,
    before: Annotated[int | None, Query(ge=0, description="Before this place: `next` of the page before.")] = None,
    limit: Limit = answers.MOST_LISTED,
) -> Response:
    """Return the newest sentences, newest last."""

    def compute(view: RegistryView) -> period_models.StoryFields:
        row, queues = view.snapshot, view.routes.queues
        span = span_up_to(row, since, until, asked.zone)
        story = (topic_story if is_topic else story_of)(asked.console.root, row, name, span, queues)
        if story is None:
            advice = did_you_mean(name, recorded_names(asked.console.root, row)) if not is_topic else ""
            raise NoSuchNameError("topic" if is_topic else "broker or topic", name, row.epoch, advice)
        end = len(story) if before is None else min(before, len(story))
        first = max(0, end - limit)
        return {
            "snapshot": answers.moment_fields(row),
            "name": name,
            "total": len(story),
            "sentences": [
                {"epoch": each.epoch, "eventTime": iso_text(each.event_time) or "", "text": each.text}
                for each in story[first:end]
            ],
            "next": str(first) if first else None,
        }

    return asked.answer(compute)


@router.get("/diff", summary="What changed between two moments")
def diff(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    start: Annotated[str, Query(alias="from", description="An epoch or an event time.")],
    end: Annotated[
        str | None, Query(alias="to", description="An epoch or an event time; without it the moment of epoch or at.")
    ] = None,
    table: Annotated[str | None, Query(description="Only the rows of this table.")] = None,
    limit: Limit = answers.MOST_LISTED,
    after: Annotated[int, Query(ge=0, description="Begin behind so many differences: `next` of the page before.")] = 0,
) -> Response:
    """Return the rows of each table that were added, removed or changed, up to the moment of epoch or at."""

    def compute(view: RegistryView) -> dict[str, object]:
        row = view.snapshot
        moments = (moment_up_to(row, text, asked.zone) for text in (start, end))
        found = asked.console.snapshots.compare(*moments)
        differences = sorted(found.diff.differences, key=lambda each: each.table in _MANY_ROWS)
        counts = _change_counts(differences)
        if table is not None and table not in counts and differences:
            raise BadQuestionError(f"table={table[:100]!r} has no difference. Tables with some: {', '.join(counts)}.")
        wanted = [each for each in differences if table in (None, each.table)]
        return {
            "from": found.before.as_json,
            "to": found.after.as_json,
            "source": found.source,
            "epochs": found.epochs,
            "counts": counts,
            "unnamedTopics": found.diff.unnamed,
            "total": len(wanted),
            "differences": [_difference_fields(each) for each in wanted[after : after + limit]],
            "next": str(after + limit) if after + limit < len(wanted) else None,
        }

    return asked.answer(compute)


def _change_counts(differences: Sequence[Difference]) -> dict[str, dict[str, int]]:
    counted = Counter((each.table, _kind(each)) for each in differences)
    tables = dict.fromkeys(each.table for each in differences)
    return {table: {kind: counted[table, kind] for kind in ("added", "removed", "changed")} for table in tables}


def _kind(each: Difference) -> str:
    return "added" if each.before is None else "removed" if each.after is None else "changed"


def _difference_fields(each: Difference) -> dict[str, object]:
    before, after = (None if side is None else row_fields(side) for side in (each.before, each.after))
    return {"table": each.table, "key": each.key, "before": before, "after": after}


@router.get("/snapshots", summary="The published snapshots that can be read, newest first")
def snapshots(asked: Asked, limit: Limit = 20) -> Response:
    """Return snapshot rows up to the moment; go further back with `next` as `epoch`."""
    oldest = asked.console.snapshots.oldest()

    def compute(view: RegistryView) -> dict[str, object]:
        rows = asked.console.snapshots.newest_first(limit, view.snapshot.epoch)
        has_more = bool(rows) and rows[-1].epoch > oldest.epoch
        return {
            "oldestEpoch": oldest.epoch,
            "snapshots": [snapshot_fields(row) for row in rows],
            "next": str(rows[-1].epoch - 1) if has_more else None,
        }

    return asked.answer(compute, oldest=oldest)


@router.get("/timeline", summary="The moments at which something changed, as marks along a track")
def timeline(
    asked: Asked,
    since: Since = "24h",
    until: Until = None,
    above: Annotated[int, Query(ge=0, description="Only epochs above this one.")] = 0,
) -> Response:
    """Return marks with the numbers of events by kind. Between two marks nothing changed but signs of life.

    A mark with `epochs` stands for that many of them, from `firstEpoch` to `epoch`. To get their own marks ask with
    `epoch` and with `above`, which is below `firstEpoch` by one.
    """
    console = asked.console
    oldest = console.snapshots.oldest()

    def compute(view: RegistryView) -> period_models.TimelineFields:
        row = view.snapshot
        since_ms = max(time_at(since, row, asked.zone) or 0, oldest.event_time or 0)
        until_ms = time_at(until, row, asked.zone)
        marks = periods.timeline(console.root, row, console.snapshots.event_times, since_ms, until_ms, above)
        return {
            "snapshot": answers.moment_fields(row),
            "oldest": answers.moment_fields(oldest),
            "since": iso_text(since_ms) or "",
            "marks": marks,
        }

    return asked.answer(compute, oldest=oldest)


@router.get("/churn", summary="Sessions of brokers, who flapped, outages of several at once, rejected records")
def churn(
    asked: Asked,
    since: Since = "24h",
    broker: Annotated[str | None, Query(description="Only of this broker name or address.")] = None,
) -> Response:
    """Return the sessions since a time, up to the moment."""

    def compute(view: RegistryView) -> period_models.ChurnFields:
        since_ms = time_at(since, view.snapshot, asked.zone) or 0
        found = periods.churn(asked.console.root, view.snapshot, since_ms, broker)
        if broker is not None and not found["sessions"]:
            _check_known(asked, view, broker)
        return found

    return asked.answer(compute)
