"""Registrations that bring their topics or not: in RocketMQ the data version alone decides."""

from __future__ import annotations

from league.scenario import Needs, scenario
from league.trial import Trial
from namesrv_stream.rules.record_types import TopicConfig

_PARTS = 5


@scenario("apache/rocketmq#9411")
def a_first_registration_may_race_the_creation_of_a_topic(trial: Trial) -> None:
    """A topic is made after the name server has started and before its broker's next heartbeat. The new topic's
    registration counts as the first; the full one that follows has the same version, and the other topics are missing.

    Right: All topics of the full registration have routes.
    """
    broker = trial.broker()
    broker.register(trial.topics("made"))
    broker.register(trial.topics("made", "before-1", "before-2"))
    trial.settle()
    every = ["made", "before-1", "before-2"]
    trial.expect("the topics with a route", trial.routed(every), every)


@scenario("apache/rocketmq#7326")
def parts_of_a_registration_add_up(trial: Trial) -> None:
    """A broker registers its topics in parts, each under a new version.

    Right: All parts together are what it has.
    """
    broker = trial.broker()
    for part in range(_PARTS):
        broker.register(trial.topics(f"a{part}", f"b{part}"))
        broker.counter += 1
    trial.settle()
    every = [f"{word}{part}" for part in range(_PARTS) for word in "ab"]
    trial.expect("the topics with a route", trial.routed(every), every)


@scenario("apache/rocketmq#10425")
def a_change_in_a_later_part_is_taken(trial: Trial) -> None:
    """With split registration 5.4.0 sends all parts under one version. The first part makes the version known, so a
    change in a later one is taken for nothing new, for as long as the version stays.

    Right: A change in any part is in the route.
    """
    broker = trial.broker()
    for words in (("a", "b"), ("c", "d")):
        broker.register(trial.topics(*words))
    broker.counter += 1
    broker.register(trial.topics("a", "b"))
    changed = {topic: TopicConfig(16, 16, 6) for topic in trial.topics("c", "d")}
    broker.register(changed)
    trial.settle()
    _expect_queues(trial, "c", 16)


@scenario("apache/rocketmq#10438")
def topics_that_change_under_one_version_are_taken(trial: Trial) -> None:
    """While a broker writes its registration a topic changes, so that the new topic goes out under the old version, or
    the old one under the new version. What is registered next under that version is taken for nothing new.

    Right: The topics registered last are in the route.
    """
    broker = trial.broker()
    broker.register(trial.topics("t", "u"))
    broker.register({topic: TopicConfig(16, 16, 6) for topic in trial.topics("t", "u")})
    trial.settle()
    _expect_queues(trial, "t", 16)


@scenario("apache/rocketmq#3381", needs=Needs.SERVERS)
def a_broker_with_another_id_is_told_to_register(trial: Trial) -> None:
    """With forceRegister=false a broker asks by its version whether it has to register. After an election its id is
    another and the version the same, so it never registers as master.

    Right: A broker whose id is not the registered one is told to register.
    """
    broker = trial.broker(broker_id=1)
    broker.register(trial.topics("t", "u"))
    trial.settle()
    trial.expect("told to register while nothing is new", broker.query_version(), False)
    broker.broker_id = 0
    trial.expect("told to register under another id", broker.query_version(), True)


def _expect_queues(trial: Trial, topic: str, right: int) -> None:
    route = trial.route(topic) or {"queueDatas": []}
    trial.expect("the read queues", [row["readQueueNums"] for row in route["queueDatas"]], [right])
