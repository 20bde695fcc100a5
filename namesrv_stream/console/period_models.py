"""The shapes of the API's answers about a stretch of time: events, stories, differences, sessions."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from namesrv_stream.console.models import MomentFields


class EventFields(TypedDict):
    """A line of the history. `before` and `after` have the rows that changed, by table."""

    epoch: int
    seq: int
    eventTime: str
    type: str
    cause: str
    text: str
    partition: NotRequired[int]
    offset: NotRequired[int]
    clusterName: NotRequired[str]
    brokerName: NotRequired[str]
    brokerId: NotRequired[int]
    brokerAddr: NotRequired[str]
    dataVersion: NotRequired[dict[str, int]]
    requestedBy: NotRequired[str]
    before: NotRequired[dict[str, Any]]
    after: NotRequired[dict[str, Any]]
    lastHeardAt: NotRequired[str]
    leaseMillis: NotRequired[int]
    reason: NotRequired[str]


class EventsFields(TypedDict):
    """A page of the history, newest last; `next` is the place before which the next page ends, null at the end."""

    snapshot: MomentFields
    events: list[EventFields]
    next: str | None


class SentenceFields(TypedDict):
    """One sentence of a story."""

    epoch: int
    eventTime: str
    text: str


class StoryFields(TypedDict):
    """The newest of `total` sentences, newest last; `next` is the place before which the next page ends."""

    snapshot: MomentFields
    name: str
    total: int
    sentences: list[SentenceFields]
    next: str | None


class DifferenceFields(TypedDict):
    """A row that one of two moments lacks, or has with other values."""

    table: str
    key: list[str | int]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class ChangeCountsFields(TypedDict):
    """The numbers of differences in one table."""

    added: int
    removed: int
    changed: int


DiffFields = TypedDict(
    "DiffFields",
    {
        "from": str,
        "to": str,
        "source": Literal["snapshots", "events"],
        "epochs": list[int] | None,
        "counts": dict[str, ChangeCountsFields],
        "unnamedTopics": dict[str, int],
        "total": int,
        "differences": list[DifferenceFields],
        "next": str | None,
    },
)


class SnapshotFields(TypedDict):
    """A published snapshot."""

    epoch: int
    term: int
    runId: str
    publishedAt: str
    eventTime: str | None
    offsets: dict[str, int]
    versions: dict[str, int]
    changes: dict[str, int]
    queryId: NotRequired[str]
    batchId: NotRequired[int]
    kind: NotRequired[str]
    lastTick: NotRequired[str]
    kafkaClusterId: NotRequired[str]
    kafkaTopicId: NotRequired[str]
    logAcceptedAt: NotRequired[str]


class SnapshotsFields(TypedDict):
    """Snapshots, newest first; `next` is the epoch with which the next page begins, null at the end."""

    oldestEpoch: int
    snapshots: list[SnapshotFields]
    next: str | None


class MarkFields(TypedDict):
    """An epoch with events, or several that are close together: `epochs` of them, from `firstEpoch` to `epoch`."""

    epoch: int
    eventTime: str | None
    ends: int
    begins: int
    commands: int
    gaps: int
    others: int
    epochs: NotRequired[int]
    firstEpoch: NotRequired[int]


class TimelineFields(TypedDict):
    """The moments at which something changed."""

    snapshot: MomentFields
    oldest: MomentFields
    since: str
    marks: list[MarkFields]


SessionFields = TypedDict(
    "SessionFields",
    {
        "broker": str,
        "brokerName": str,
        "brokerAddr": str,
        "from": str,
        "to": str | None,
        "endedBy": str | None,
        "unplanned": bool,
    },
)


class FlappingFields(TypedDict):
    """A broker with unplanned ends."""

    broker: str
    unplannedEnds: int
    flaps: int
    shortestMillis: int


class OutageFields(TypedDict):
    """Brokers that ended unplanned together, by cluster."""

    firstGoneAt: str
    lastGoneAt: str
    count: int
    clusters: dict[str, int]
    brokers: list[str]


class RejectedFields(TypedDict):
    """A record outside the contract; `text` is the beginning of its value."""

    eventTime: str
    partition: int
    offset: int
    key: str | None
    length: int
    reason: str
    text: str


class ChurnFields(TypedDict):
    """Sessions of brokers since a time. `rejected` are the newest, `rejectedMore` whether there are older ones."""

    snapshot: MomentFields
    since: str
    sessions: list[SessionFields]
    availability: dict[str, float]
    flapping: list[FlappingFields]
    outages: list[OutageFields]
    rejected: list[RejectedFields]
    rejectedMore: bool
