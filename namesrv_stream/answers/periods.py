"""Answers about a stretch of time up to a snapshot: moments of change, sessions of brokers, rejected records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from namesrv_stream.analysis.ask import opened
from namesrv_stream.answers.accounts import Rejected, rejected
from namesrv_stream.answers.definitions import BACK_SOON_MS, EXPECTED_MS, up_brokers
from namesrv_stream.answers.events import EpochEvents, Span, came, events_by_epoch
from namesrv_stream.answers.lists import check_known
from namesrv_stream.answers.model import AnswerModel, Moment, Unknown, unknown_in
from namesrv_stream.answers.questions import AskChurn, AskTimeline
from namesrv_stream.answers.sentences import BY_OPERATORS
from namesrv_stream.reporting.texts import Time, natural_key
from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.moment import RegistryAt

MAX_MARKS = 2_000
_MAX_REJECTED = 50
EpochTimes = Callable[[int, int], Mapping[int, int]]
"""Function that returns epoch -> event time of the snapshots from one epoch to another."""


class Mark(AnswerModel, omit_defaults=True):
    """An epoch with events, or several that are close together: `epochs` of them, from `firstEpoch` to `epoch`.

    `alive`: the number of brokers that are up after it; `leastAlive`: the least of several epochs.
    """

    epoch: int
    event_time: Time
    ends: int
    begins: int
    commands: int
    gaps: int
    others: int
    alive: int
    epochs: int = 1
    first_epoch: int | None = None
    least_alive: int | None = None


class Timeline(AnswerModel):
    """The moments at which something changed. `aliveBefore`: the number of brokers that were up before them.

    `unknown`: a stretch whose moments are not known, because rows of the history were lost. It has no marks, nor has
    the time before it.
    """

    snapshot: Moment
    oldest: Moment
    since: Time
    alive_before: int
    marks: list[Mark]
    unknown: Unknown | None = None


class PastSession(AnswerModel):
    """A stretch of time in which a broker was in the routes; `to` is null while it lasts."""

    broker: str
    cluster_name: str
    broker_name: str
    broker_id: int
    broker_addr: str
    from_: Time
    to: Time | None
    ended_by: str | None
    unplanned: bool


class Flapping(AnswerModel):
    """A broker with unplanned ends."""

    broker: str
    cluster_name: str
    broker_name: str
    broker_id: int
    unplanned_ends: int
    flaps: int
    shortest_millis: int


class BrokerOfCluster(AnswerModel):
    """A broker by its cluster, its group and its role."""

    cluster_name: str
    broker_name: str
    broker_id: int


class SharedOutage(AnswerModel):
    """Brokers that ended unplanned together, by cluster. `members`: the same brokers as `brokers`, by their parts."""

    first_gone_at: Time
    last_gone_at: Time
    count: int
    clusters: dict[str, int]
    brokers: list[str]
    members: list[BrokerOfCluster]


class Churn(AnswerModel):
    """Sessions of brokers since a time.

    `rejected`: the newest rejected records; `rejectedMore`: there are older ones. `unknown`: a stretch less than 7 days
    before `since` whose events were lost: a broker that fell in it counts from its return on.
    """

    snapshot: Moment
    since: Time
    sessions: list[PastSession]
    availability: dict[str, float]
    flapping: list[Flapping]
    outages: list[SharedOutage]
    rejected: list[Rejected]
    rejected_more: bool
    unknown: Unknown | None = None


def timeline(registry: RegistryAt, oldest: SnapshotRow, times: EpochTimes, asked: AskTimeline) -> Timeline:
    """Return the epochs with events in a span, as marks along a track; at most MAX_MARKS of them.

    Between two marks no route, lease or setting changed. If there are too many epochs, neighbours in time share a mark;
    if all have the same time, neighbours in number do. A mark has the time of its snapshot, as all other answers do.
    `oldest` is the oldest snapshot that can be read, before which there is no mark.
    """
    since_ms = max(asked.time_ms(registry, asked.since, is_begin=True) or 0, oldest.event_time or 0)
    until_ms = asked.time_ms(registry, asked.until)
    alive = len(up_brokers(registry))
    every = events_by_epoch(registry, since_ms, alive)[::-1]
    at_ms = times(every[0].epoch, every[-1].epoch) if every else {}
    every = [each._replace(event_time=at_ms.get(each.epoch, each.event_time)) for each in every]
    every = [each for each in every if each.epoch > asked.above]
    before = every[0].alive - came(every[0].counts) if every else alive
    found = [each for each in every if until_ms is None or each.event_time <= until_ms]
    unknown = unknown_in(registry, Span(since_ms))
    return Timeline(Moment.of(registry.snapshot), Moment.of(oldest), Time(since_ms), before, _marks(found), unknown)


def _marks(found: Sequence[EpochEvents]) -> list[Mark]:
    """Return a mark for each epoch or, for too many epochs, one for all in the same stretch of the track."""
    places = [each.event_time for each in found]
    if found and places[-1] - places[0] < MAX_MARKS:
        places = list(range(len(found)))
    width = (places[-1] - places[0]) // MAX_MARKS + 1 if len(found) > MAX_MARKS else 1
    together: dict[int, list[EpochEvents]] = {}
    for index, (each, place) in enumerate(zip(found, places, strict=True)):
        bucket = index if len(found) <= MAX_MARKS else (place - places[0]) // width
        together.setdefault(bucket, []).append(each)
    return list(map(_mark, together.values()))


def _mark(epochs: Sequence[EpochEvents]) -> Mark:
    counts = sum((each.counts for each in epochs), Counter[str]())
    ends, commands = (sum(counts[kind] for kind in kinds) for kinds in (LEASE_ENDS, BY_OPERATORS))
    begins, gaps = counts["REGISTERED"], counts["LOG_GAP"]
    others = counts.total() - ends - begins - commands - gaps
    several = (len(epochs), epochs[0].epoch, min(each.alive for each in epochs)) if len(epochs) > 1 else ()
    last = epochs[-1]
    return Mark(last.epoch, Time(last.event_time), ends, begins, commands, gaps, others, last.alive, *several)


_VIEWS = ("broker_stretch", "outage", "shared_outage")
_BROKER = "concat_ws(' ', cluster_name, broker_name, broker_id)"
_PARTS = "cluster_name, broker_name, broker_id"
_SESSIONS = f"""
    SELECT {_BROKER} AS broker, {_PARTS}, last_addr, epoch_ms(from_time), epoch_ms(to_time), ended_by,
           is_unplanned
    FROM broker_stretch
    WHERE from_millis <= $until AND greatest(expected_until_millis, up_until_millis + 1) > $since
      AND coalesce($broker IN (broker_name, first_addr, last_addr), true)
    ORDER BY from_millis, cluster_name, broker_name, broker_id"""
_AVAILABILITY = f"""
    SELECT {_BROKER} AS broker, sum(greatest(0, least(up_until_millis, $until) - greatest(from_millis, $since))) AS up,
           sum(greatest(0, least(expected_until_millis, $until) - greatest(from_millis, $since))) AS expected
    FROM broker_stretch
    WHERE coalesce($broker IN (broker_name, first_addr, last_addr), true)
    GROUP BY ALL HAVING expected > 0 ORDER BY ALL"""
_FLAPPING = f"""
    SELECT {_BROKER} AS broker, {_PARTS}, count(*) AS ends, count(*) FILTER (away_millis <= {BACK_SOON_MS}) AS flaps,
           min(session_millis)
    FROM outage
    WHERE epoch_ms(gone_at) BETWEEN $since AND $until AND coalesce($broker IN (broker_name, broker_addr), true)
    GROUP BY ALL"""
_OUTAGES = """
    SELECT epoch_ms(first_gone_at), epoch_ms(last_gone_at), which
    FROM shared_outage
    WHERE epoch_ms(last_gone_at) BETWEEN $since AND $until
      AND ($broker IS NULL OR len(list_filter(which, lambda each: split_part(each, ' ', -2) = $broker)) > 0)
    ORDER BY first_gone_at DESC"""


def churn(registry: RegistryAt, asked: AskChurn) -> Churn:
    """Return the sessions of brokers since a time up to the moment, the brokers that flapped, and shared outages.

    The figures are those of the views of analysis/views.sql for this time. A broker that was down at its beginning is
    there with its last session. Raises PastUnknownError if events since then were lost.
    """
    since_ms, broker = asked.time_ms(registry, asked.since, is_begin=True) or 0, asked.broker
    unknown = registry.unknown
    if unknown is not None and since_ms < unknown.until_millis:
        raise unknown.error
    with opened(registry, only=_VIEWS, kept=["broker_session"]) as views:
        values = {"since": since_ms, "until": registry.now_ms, "broker": broker}
        found = list(views.rows(_SESSIONS, values))
        if broker is not None and not found:
            check_known(registry, broker)
        refused = rejected(registry, _MAX_REJECTED + 1)
        return Churn(
            snapshot=Moment.of(registry.snapshot),
            since=Time(since_ms),
            sessions=[
                PastSession(
                    broker=each,
                    cluster_name=cluster,
                    broker_name=name,
                    broker_id=broker_id,
                    broker_addr=address,
                    from_=Time(from_ms),
                    to=None if to_ms is None else Time(to_ms),
                    ended_by=ended_by,
                    unplanned=is_unplanned,
                )
                for each, cluster, name, broker_id, address, from_ms, to_ms, ended_by, is_unplanned in found
            ],
            availability={
                broker: round(up / expected, 6) for broker, up, expected in views.rows(_AVAILABILITY, values)
            },
            flapping=sorted(
                (Flapping(*row) for row in views.rows(_FLAPPING, values)),
                key=lambda each: (-each.flaps, -each.unplanned_ends, natural_key(each.broker)),
            ),
            outages=sorted((_outage(*row) for row in views.rows(_OUTAGES, values)), key=lambda each: -each.count),
            rejected=refused[:_MAX_REJECTED],
            rejected_more=len(refused) > _MAX_REJECTED,
            unknown=unknown_in(registry, Span(since_ms - EXPECTED_MS)),
        )


def _outage(first_ms: int, last_ms: int, brokers: list[str]) -> SharedOutage:
    ordered = sorted(brokers, key=natural_key)
    members = [
        BrokerOfCluster(cluster, name, int(number))
        for cluster, name, number in (each.rsplit(" ", 2) for each in ordered)
    ]
    clusters = Counter(each.cluster_name for each in members)
    return SharedOutage(Time(first_ms), Time(last_ms), len(brokers), clusters, ordered, members)
