"""Tens of thousands of topics."""

from __future__ import annotations

import time

from league.broker import Broker
from league.scenario import Needs, scenario
from league.trial import Trial
from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.wire.codes import RequestCode, ResponseCode

_MANY = 50_000
_MORE = 70_000
_PART = 800
_CLIENT_LIMIT_S = 3.0
"""Longest time that RocketMQ's clients and mqadmin wait for an answer."""

_LONG_NAME = "a-topic-with-a-name-of-the-length-that-names-have-in-a-company-with-many-teams"


@scenario("apache/rocketmq#5296", needs=Needs.SIZE)
def seventy_thousand_topics_in_one_frame(trial: Trial) -> None:
    """A broker with more than 60,000 topics registers in one frame of more than 16 MiB. The name server closes the
    connection, and none of its topics has a route.

    Right: A broker with 70,000 topics can register.

    Here: 16 MiB is the protocol's limit of a frame, and a bound on what a stranger can make the gateway hold. A broker
    with as many topics sets enableSplitRegistration=true: the scenario after the next.
    """
    _expect_registered(trial, _many(trial, _MORE, _LONG_NAME), compressed=False)


@scenario("apache/rocketmq#5296", needs=Needs.SIZE)
def seventy_thousand_topics_compressed(trial: Trial) -> None:
    """The same with compressedRegister=true.

    Right: A broker with 70,000 topics can register.

    Here: A registration inflates to at most 16 MiB and has at most 50,000 topics, a bound on what a stranger can make
    the gateway do. A broker with as many topics sets enableSplitRegistration=true: the next scenario.
    """
    _expect_registered(trial, _many(trial, _MORE, _LONG_NAME), compressed=True)


@scenario("apache/rocketmq#7326", needs=Needs.SIZE)
def seventy_thousand_topics_in_parts(trial: Trial) -> None:
    """The same with enableSplitRegistration=true, in parts of 800.

    Right: A broker with 70,000 topics can register.
    """
    broker = trial.broker()
    topics = list(_many(trial, _MORE, _LONG_NAME).items())
    for start in range(0, _MORE, _PART):
        broker.register(dict(topics[start : start + _PART]))
        broker.counter += 1
    _expect_ends(trial, broker)


@scenario("apache/rocketmq#7534", needs=Needs.SIZE | Needs.TIMING)
def the_list_of_fifty_thousand_topics_is_answered_in_time(trial: Trial) -> None:
    """The list of 50,000 topics takes the name server longer than a client waits, because each is added to a list by
    copying it.

    Right: The list is answered within the 3 s that a client waits.
    """
    broker = trial.broker()
    broker.register(_many(trial, _MANY, "topic"))
    trial.settle()
    asked_s = time.monotonic()
    answer = trial.ask(RequestCode.GET_TOPICS_BY_CLUSTER, fields={"cluster": broker.cluster})
    took_s = time.monotonic() - asked_s
    trial.expect("topics in the list", answer.body.count(b'"topic-'), _MANY)
    _expect_in_time(trial, "the answer", took_s)
    broker.unregister()


@scenario("apache/rocketmq#4245", needs=Needs.SIZE | Needs.TIMING)
def a_change_is_seen_while_fifty_thousand_topics_come(trial: Trial) -> None:
    """In a large cluster a registration with many topics holds up everyone's changes.

    Right: A change of another broker is in the routes within the 3 s that a client waits.
    """
    large, small = trial.broker("large"), trial.broker("small")
    small.register(trial.topics("t", "u"))
    trial.settle()
    large.register(_many(trial, _MANY, "topic"))
    changed_s = time.monotonic()
    small.counter += 1
    small.register(trial.topics("t", "u", "new"))
    trial.await_right("the topics with a route", lambda: trial.routed(["new"]), ["new"], 60)
    _expect_in_time(trial, "the change", time.monotonic() - changed_s)
    large.unregister()


def _many(trial: Trial, count: int, word: str) -> dict[str, TopicConfig]:
    return trial.topics(*(f"{word}-{number:05}" for number in range(count)))


def _expect_registered(trial: Trial, topics: dict[str, TopicConfig], *, compressed: bool) -> None:
    broker = trial.broker()
    try:
        code: object = broker.register(topics, compressed=compressed).code
    except ConnectionError:
        code = "the connection is closed"
    trial.expect("the answer", code, ResponseCode.SUCCESS)
    _expect_ends(trial, broker)


def _expect_ends(trial: Trial, broker: Broker) -> None:
    trial.settle()
    every = [f"{_LONG_NAME}-{number:05}" for number in (0, _MORE // 2, _MORE - 1)]
    trial.expect("topics with a route, of the first, a middle and the last one", len(trial.routed(every)), len(every))
    broker.unregister()


def _expect_in_time(trial: Trial, what: str, took_s: float) -> None:
    trial.expect(f"{what} within {_CLIENT_LIMIT_S:g} s", _in_time(took_s), "in time")


def _in_time(took_s: float) -> str:
    return "in time" if took_s < _CLIENT_LIMIT_S else f"{took_s:.1f} s"
