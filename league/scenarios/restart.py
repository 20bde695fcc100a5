"""Servers that start, and servers that know different things."""

from __future__ import annotations

from league.scenario import Needs, scenario
from league.trial import Trial

_GONE_WITHIN_S = 60.0


@scenario("apache/rocketmq#5322", needs=Needs.SERVERS)
def routes_are_there_after_a_restart(trial: Trial) -> None:
    """A name server restarts. Until all brokers have registered again, up to 30 s, clients are told that their topics
    do not exist.

    Right: The routes are there as before.
    """
    broker = trial.broker()
    broker.register(trial.topics("t", "u"))
    trial.settle()
    trial.side.restart()
    trial.hang_up()
    trial.expect("the addresses in the route", trial.addresses("t"), [broker.address])


@scenario("apache/rocketmq-operator#227", needs=Needs.SERVERS)
def all_servers_give_the_same_answer(trial: Trial) -> None:
    """A broker has a list that lacks one of the name servers. Clients see it or not, by the server they ask.

    Right: All servers give the same answer.
    """
    broker = trial.broker(server=0)
    broker.register(trial.topics("t", "u"))
    for server in (0, 1):
        trial.settle(server)
    seen = [trial.addresses("t", server=server) for server in (0, 1)]
    trial.expect("the addresses at each server", seen, [[broker.address]] * 2)


@scenario("apache/rocketmq#5322", needs=Needs.SERVERS)
def a_broker_that_died_meanwhile_is_gone_after_a_restart(trial: Trial) -> None:
    """The process that decides about routes is away, and a broker dies meanwhile. The process comes back without the
    state that it kept for itself (RocketMQ: its memory; here: the checkpoint).

    Right: The dead broker has no route, long before its timeout.
    """
    broker = trial.broker()
    broker.register(trial.topics("t", "u"))
    trial.settle()
    with trial.side.away_without_memory():
        broker.line.close()
    trial.hang_up()
    trial.await_right("the addresses in the route", lambda: trial.addresses("t"), [], _GONE_WITHIN_S)
