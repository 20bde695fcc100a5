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
    """A broker address with a lease. `silentMillis`: time by the log's clock since its last sign of life.

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
    """Holder of a broker id."""

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
    """Trouble in one zone of one cluster: `count` addresses of `total` are late, suspect, or gone by `endedBy`.

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
    """The first events after an epoch, and the registry and epoch from which to ask next."""

    registry: str
    epoch: int
    events: list[dict[str, Any]]
