"""The questions about a moment: one class each, of which each field has its type, its range, its default and its help.

The console makes its parameters of them, and the command line its options; docs/questions.md is made of them too. The
function that answers a question gets it and the registry at the moment. A name of a field is that of the parameter;
`Cli` gives the option's where it has another one.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from namesrv_stream.answers.absences import Kind
from namesrv_stream.answers.causes import State
from namesrv_stream.answers.definitions import TopicState
from namesrv_stream.answers.events import Span
from namesrv_stream.answers.model import MAX_LISTED, BadQuestionError
from namesrv_stream.answers.times import is_still_to_come, span_up_to, time_at, time_ms, zone_named
from namesrv_stream.config.written_times import ACCEPTED
from namesrv_stream.reporting.texts import SHOWN_ZONE, folded
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.moment import RegistryAt

FORMS = (
    "2026-11-21T03:12:00Z, 2026-11-21, 03:12 (the last one that has passed), 10m, 2h ago. A time without a zone is in "
    "`tz`, else in UTC. A date means its start in `since` and `from`, and its end elsewhere."
)


class Cli(NamedTuple):
    """How the command line differs from the API: the option's names, its default, its value's name, and its help."""

    names: tuple[str, ...] = ()
    default: Any = ...
    metavar: str | None = None
    text: str | None = None


GONE = ("left", "unregistered", "removed")
"""States of brokers that unregistered, and of topics that were removed; `left` is the older word for both."""

BROKER_ORDERS = ("address", "name", "cluster", "zone", "state", "silent", "since", "topics", "match")
TOPIC_ORDERS = ("name", "state", "read", "write", "brokerNames", "brokerNamesUp", "match")

ALL = 2**31 - 1
"""Limit of a list without one, on the command line."""

Limit = Annotated[int, Field(ge=1, le=MAX_LISTED, description="Maximum number of items.")]
After = Annotated[str, Field(description="Begin after this item: `next` of the previous page.")]
Since = Annotated[
    str | None,
    Field(description=f"From this event time on: {FORMS}"),
    Cli(metavar="TIME", text=f"From this event time on: {ACCEPTED}. A date stands for its start."),
]
Until = Annotated[
    str | None,
    Field(description="Up to this event time."),
    Cli(metavar="TIME", text="Up to this event time. A date stands for its end."),
]
OfBroker = Annotated[
    str | None,
    Field(min_length=1, description="Only of this broker group or address."),
    Cli(("-b", "--broker"), metavar="NAME|ADDRESS"),
]
OfTopic = Annotated[str | None, Field(min_length=1, description="Only of this topic."), Cli(("-t", "--topic"))]
OfCluster = Annotated[str | None, Field(min_length=1, description="Only of this cluster."), Cli(("-c", "--cluster"))]
OfZone = Annotated[str | None, Field(description="Only of this zone; empty for those without a zone.")]
Containing = Annotated[
    str,
    Field(description="Only those whose name contains this text; of brokers also those whose address does."),
    Cli(("-q", "--containing")),
]
EveryVersion = Annotated[
    bool,
    Field(description="Also show registrations that changed only the data version."),
    Cli(("--versions",)),
]


class Question(BaseModel):
    """A question about a moment: `epoch` or `at`, without both the newest one."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    tz: Annotated[
        str | None,
        Field(description="Zone of times without one, and of times in sentences, such as Europe/Berlin; else UTC."),
    ] = None
    epoch: Annotated[int | None, Field(ge=1, description="As of the snapshot with this number.")] = None
    at: Annotated[str | None, Field(description=f"As of this event time: {FORMS}")] = None
    _now_ms: int | None = PrivateAttr(default=None)

    def counted_from(self, now_ms: int) -> Self:
        """Return the question with durations and times of day that count back from a time, not from the moment."""
        asked = self.model_copy()
        asked._now_ms = now_ms  # noqa: SLF001  # of this class
        return asked

    @property
    def time_zone(self) -> tzinfo:
        """The zone of times without one."""
        return SHOWN_ZONE.get() if self.tz is None else zone_named(self.tz)

    @property
    def moment(self) -> AsOf:
        """The moment. Raises BadQuestionError."""
        if self.epoch is not None and self.at is not None:
            raise BadQuestionError("`epoch` and `at` exclude each other. Give one of them.")
        now = datetime.now(UTC)
        at_ms = None if self.at is None else time_ms(self.at, now, self.time_zone)
        if at_ms is not None and is_still_to_come(at_ms, now):
            raise BadQuestionError(f"at={str(self.at)[:100]} is in the future. Leave `at` out to ask about now.")
        return AsOf(self.epoch, at_ms)

    def time_ms(self, registry: RegistryAt, text: str | None, *, is_begin: bool = False) -> int | None:
        """Return a time of the question in epoch milliseconds, None for None. Raises BadQuestionError."""
        return time_at(text, self._now_ms or registry.now_ms, self.time_zone, is_begin=is_begin)


class SpanQuestion(Question):
    """A question about what happened in a stretch of time up to the moment."""

    since: Since = None
    until: Until = None

    def span(self, registry: RegistryAt) -> Span:
        """Return the stretch. Raises BadQuestionError."""
        return span_up_to(self._now_ms or registry.now_ms, self.since, self.until, self.time_zone)


class ListQuestion(Question):
    """A question that is answered with a list, page by page."""

    cluster: OfCluster = None
    zone: OfZone = None
    q: Containing = ""
    limit: Annotated[Limit, Cli(default=ALL)] = 100
    after: After = ""


class AskBrokers(ListQuestion):
    """Which brokers are there, and in which state?"""

    sort: Annotated[
        str, Field(description=f"One of {', '.join(BROKER_ORDERS)}; with - in reverse order."), Cli(default="cluster")
    ] = "address"
    state: Annotated[
        Literal["up", State, "unregistered"] | None,
        Field(
            description="Only those in this state. up: alive, late or suspect. unregistered: within 7 days, and not "
            "returned; also as `left`."
        ),
    ] = None
    cause: Annotated[
        str | None,
        Field(min_length=1, description="Only those of this cause: an `id` in `verdict.causes` of /v1/overview."),
    ] = None

    def chooses(self, cluster: str, zone: str | None, *names: str) -> bool:
        """Return whether a broker is wanted. One of its `names` has to contain the text."""
        is_near = self.cluster in (None, cluster) and self.zone in (None, zone or "")
        text = folded(self.q)
        return is_near and any(text in folded(name) for name in names)


class AskBroker(Question):
    """What is the state of a broker group, or of an address?"""

    limit: Limit = 200
    after: After = ""


class AskTopics(ListQuestion):
    """Which topics are there, and in which state?"""

    system: Annotated[bool, Field(description="With the topics that every broker creates.")] = True
    state: Annotated[
        Literal[TopicState, "left", "removed"] | None,
        Field(description="Only those in this state. removed: within 7 days, and not expected; also as `left`."),
    ] = None
    sort: Annotated[str, Field(description=f"One of {', '.join(TOPIC_ORDERS)}; with - in reverse order.")] = "name"


class AskTopic(Question):
    """What is the route of a topic?"""

    zone: Annotated[str | None, Field(description="Show the route that a client in this zone gets.")] = None


class AskEvents(SpanQuestion):
    """What happened?"""

    broker: OfBroker = None
    topic: OfTopic = None
    types: Annotated[
        list[str],
        Field(alias="type", description="Only of this type, such as EXPIRED; repeatable."),
        Cli(("--type",), metavar="TYPE"),
    ] = []
    before: Annotated[
        str | None,
        Field(pattern=r"^\d{1,15}\.\d{1,15}$", description="Before this place: `next` of the previous page."),
        Cli(metavar="EPOCH.NUMBER"),
    ] = None
    limit: Annotated[Limit, Cli(default=50)] = 100
    versions: Annotated[EveryVersion, Cli(("--versions",), default=False)] = True

    @property
    def below(self) -> tuple[int, int] | None:
        """The place before which events are wanted: an epoch and a number in it."""
        epoch, _, seq = (self.before or "").partition(".")
        return (int(epoch), int(seq)) if seq else None


class AskWhy(SpanQuestion):
    """What happened to a broker or a topic?"""

    is_topic: Annotated[
        bool,
        Field(alias="topic", description="The name is that of a topic, even if a broker group has it too."),
        Cli(("--topic",)),
    ] = False
    before: Annotated[int | None, Field(ge=0, description="Before this place: `next` of the previous page.")] = None
    limit: Annotated[Limit, Cli(default=ALL)] = MAX_LISTED
    versions: EveryVersion = False


class AskDiff(Question):
    """What changed between two times?"""

    start: Annotated[str, Field(alias="from", description="The number of a snapshot, or an event time.")]
    end: Annotated[
        str | None,
        Field(alias="to", description="The number of a snapshot, or an event time (default: `epoch` or `at`)."),
    ] = None
    table: Annotated[str | None, Field(description="Only the rows of this table.")] = None
    limit: Annotated[Limit, Cli(default=ALL)] = MAX_LISTED
    after: Annotated[int, Field(ge=0, description="Skip this many differences: `next` of the previous page.")] = 0


class AskSnapshots(Question):
    """Which snapshots were published?"""

    limit: Limit = 20


class AskTimeline(Question):
    """When did something change?"""

    since: Since = "24h"
    until: Until = None
    above: Annotated[int, Field(ge=0, description="Only epochs above this one.")] = 0


class AskChurn(Question):
    """Which brokers went online and offline, and which flapped?"""

    since: Since = "24h"
    broker: OfBroker = None


class AskIncidents(Question):
    """Which brokers were down, and what did that do to topics?"""

    since: Since = "24h"
    limit: Limit = 50


class OfPlaces(Question):
    """A question about what would be if brokers were gone."""

    brokers: Annotated[
        list[str],
        Field(
            alias="broker",
            description="A broker group, an address, or one broker, such as `broker-a master` or `broker-a/1`; "
            "repeatable.",
        ),
    ] = []
    zones: Annotated[
        list[str],
        Field(alias="zone", description="All brokers of this zone; empty for those without a zone. Repeatable."),
        Cli(("--zone",)),
    ] = []
    clusters: Annotated[
        list[str],
        Field(alias="cluster", description="All brokers of this cluster; repeatable."),
        Cli(("-c", "--cluster")),
    ] = []


class AskImpact(OfPlaces):
    """What would topics lose if these brokers were gone, all at once?"""

    wiped: Annotated[
        list[str],
        Field(alias="wipe", description="This broker group is read-only (wipeWritePerm), and not gone; repeatable."),
        Cli(("--wipe",), metavar="GROUP"),
    ] = []
    limit: Annotated[Limit, Cli(default=20)] = 100
    after: Annotated[int, Field(ge=0, description="Skip this many topics: `next` of the previous page.")] = 0


class AskResilience(OfPlaces):
    """What would topics lose if each of these was gone alone?"""

    each: Annotated[
        Kind | None,
        Field(description="Every broker, broker group, zone or cluster; without it those that are named."),
    ] = None
    limit: Annotated[Limit, Cli(default=20)] = 100


class AskWatch(BaseModel):
    """What changes from now on, or from an epoch on?"""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    topics: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1000)]],
        Field(alias="topic", description="Repeatable; without it every snapshot is an event."),
    ] = []
    epoch: Annotated[int | None, Field(ge=0, description="The epoch whose state you have; see Last-Event-ID.")] = None
    registry: Annotated[
        str, Field(description="The registry of that epoch, as the answers name it; another one gets a reset.")
    ] = ""
    wait: Annotated[
        str | None,
        Field(description="Answer once, with the first events after `epoch`, this time later at the latest."),
    ] = None
