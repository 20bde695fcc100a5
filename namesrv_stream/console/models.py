"""The shapes of the API's answers. Names are camelCase, times ISO 8601 in UTC, durations end with Millis."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

State = Literal["alive", "late", "suspect"]


class BetweenFields(TypedDict):
    """A moment that was asked for lies between two snapshots, and `events` in between are not in the answer."""

    askedAt: str
    nextEpoch: int
    nextEventTime: str
    events: int


class MomentFields(TypedDict):
    """The snapshot from which an answer is made. `eventTime` is null before the first record."""

    epoch: int
    eventTime: str | None
    publishedAt: str
    between: NotRequired[BetweenFields]


class BrokerFields(TypedDict):
    """A broker address with a lease. `silentMillis`: event time since its last sign of life.

    `late`: silent for more than half its lease. `suspect`: its lease is over, and the guard against mass expiry holds
    it.
    """

    brokerAddr: str
    clusterName: str
    brokerName: str
    brokerId: int
    holdsId: bool
    state: State
    suspectSince: str | None
    silentMillis: int
    heartbeatTimeoutMillis: int
    lastUpdateTimestamp: str | None
    leaseBeganAt: str | None
    zoneName: str | None
    haServerAddr: str
    dataVersion: dict[str, int]
    filterServerList: list[str]
    topics: int


class GoneFields(TypedDict):
    """A broker address whose lease ended within the last hour, and which has none since."""

    brokerAddr: str
    clusterName: str
    brokerName: str
    brokerId: int
    zoneName: str | None
    endedBy: str
    goneAt: str | None
    text: str


class BrokersFields(TypedDict):
    """A page of brokers; `next` is the address behind which the next page begins, null at the end."""

    snapshot: MomentFields
    total: int
    brokers: list[BrokerFields]
    next: str | None


class GonePageFields(TypedDict):
    """A page of brokers that are gone; `next` is the address behind which the next page begins, null at the end."""

    snapshot: MomentFields
    total: int
    gone: list[GoneFields]
    next: str | None


class HolderFields(TypedDict):
    """Who holds a broker id."""

    brokerId: int
    brokerAddr: str
    state: State
    silentMillis: int | None
    leaseBeganAt: str | None


class BrokerNameFields(TypedDict):
    """A broker name and the holders of its ids."""

    brokerName: str
    zoneName: str | None
    topics: int
    holders: list[HolderFields]


class ClusterFields(TypedDict):
    """A cluster and its broker names."""

    name: str
    brokers: list[BrokerNameFields]


class ClustersFields(TypedDict):
    """All clusters."""

    snapshot: MomentFields
    clusters: list[ClusterFields]


class CountsFields(TypedDict):
    """Numbers of a moment. `gone`: addresses that have left within the last hour."""

    clusters: int
    brokerNames: int
    alive: int
    late: int
    suspect: int
    gone: int
    topics: int
    systemTopics: int


class GroupFields(TypedDict):
    """The holders of ids in one zone of one cluster, as numbers."""

    clusterName: str
    zoneName: str | None
    brokerNames: int
    alive: int
    late: int
    suspect: int
    gone: int


class TroubleFields(TypedDict):
    """What is wrong in one zone of one cluster: `count` addresses of `total` are late, suspect, or gone by `endedBy`.

    `brokers` has the first of them. `firstAt` and `lastAt`: when the first and the last one was heard for the last
    time, became suspect, or went.
    """

    clusterName: str
    zoneName: str | None
    state: Literal["late", "suspect", "gone"]
    endedBy: str | None
    unplanned: bool
    count: int
    total: int
    firstAt: str | None
    lastAt: str | None
    brokers: list[dict[str, Any]]


class ToldFields(TypedDict):
    """A line of history, or `count` lines of one epoch and type, with a sentence."""

    epoch: int
    eventTime: str
    type: str
    text: str
    count: int


class OverviewFields(TypedDict):
    """A moment at a glance. `clusters` and `gone` are empty of very many brokers: see /v1/brokers and /v1/gone."""

    snapshot: MomentFields
    kind: str | None
    term: int
    runId: str
    counts: CountsFields
    trouble: list[TroubleFields]
    groups: list[GroupFields]
    clusters: list[ClusterFields]
    gone: list[GoneFields]
    lastHour: dict[str, int]
    events: list[ToldFields]


class TopicFields(TypedDict):
    """A topic, its queues over all broker names, and the number of these."""

    topic: str
    readQueueNums: int
    writeQueueNums: int
    brokerNames: int
    isSystem: bool


class TopicsFields(TypedDict):
    """A page of topics; `next` is the topic behind which the next page begins, null at the end."""

    snapshot: MomentFields
    total: int
    hidden: int
    topics: list[TopicFields]
    next: str | None


class TopicRouteFields(TypedDict):
    """The route of a topic: RocketMQ's TopicRouteData, and the leases of its brokers."""

    snapshot: MomentFields
    topic: str
    route: dict[str, Any]
    brokers: list[BrokerFields]


class TopicOfBrokerFields(TypedDict):
    """A topic on one broker name."""

    topic: str
    readQueueNums: int
    writeQueueNums: int
    perm: int


class BrokerNamePageFields(TypedDict):
    """The leases of a broker name or address, and a page of its topics."""

    snapshot: MomentFields
    brokerName: str
    brokers: list[BrokerFields]
    total: int
    topics: list[TopicOfBrokerFields]
    next: str | None


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


class StatusFields(TypedDict):
    """The state of the job now. `stale`: lookups may be wrong. `problem`: why no newer snapshot can be read."""

    state: Literal["running", "catching up", "starting", "stopped in order", "dead"]
    since: str
    lagMillis: int | None
    stale: bool
    epoch: int
    eventTime: str | None
    publishedAt: str
    term: int
    runId: str
    problem: str | None


class ProblemFields(TypedDict):
    """An error; `message` says what to do."""

    error: str
    status: int
    message: str


class SentFields(TypedDict):
    """A command that Kafka has; `epoch` shows its effect, null if none does yet."""

    partition: int
    offset: int
    epoch: int | None
    requestedBy: str | None


class WatchFields(TypedDict):
    """The first events after an epoch, and the epoch from which to ask next."""

    epoch: int
    events: list[dict[str, Any]]
