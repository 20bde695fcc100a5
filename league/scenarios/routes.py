"""Answers that clients can read."""

from __future__ import annotations

import json

from league.scenario import Needs, scenario
from league.trial import Trial
from namesrv_stream.wire.codes import RequestCode

_OLD_GO_CLIENT = 317
_OLD_IDS = b'"brokerAddrs":{%s:'


@scenario("apache/rocketmq#4471", "apache/rocketmq-client-go#845")
def an_old_go_client_reads_broker_ids(trial: Trial) -> None:
    """Before its fix the Go client took a broker id in quotes for 0, so its producers sent to slaves.

    Right: Clients of before 4.9.4 get ids without quotes.
    """
    master, slave = trial.broker(), trial.broker(broker_id=1)
    for broker in (master, slave):
        broker.register(trial.topics("t", "u"))
    trial.settle()
    topic = trial.named("t")
    body = trial.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic}, version=_OLD_GO_CLIENT).body
    expected = f'"brokerAddrs":{{0:"{master.address}",1:"{slave.address}"}}'
    trial.expect("the ids in the route", expected.encode() in body, True)


@scenario("apache/rocketmq#1445", needs=Needs.V5)
def all_answers_are_json(trial: Trial) -> None:
    """Cluster info, member groups and routes of a zone have integer keys without quotes, which is no JSON. Readers in
    other languages fail.

    Right: A client of 4.9.4 and later gets JSON from every request.
    """
    broker = trial.broker(zone="z")
    broker.register(trial.topics("t", "u"))
    trial.settle()
    zone = {"__ZONE_MODE": "true", "__ZONE_NAME": "z"}
    asked: dict[str, tuple[int, dict[str, str]]] = {
        "route": (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": trial.named("t")}),
        "route of a zone": (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": trial.named("t")} | zone),
        "cluster info": (RequestCode.GET_BROKER_CLUSTER_INFO, {}),
        "member group": (
            RequestCode.GET_BROKER_MEMBER_GROUP,
            {"clusterName": broker.cluster, "brokerName": broker.name},
        ),
    }
    bodies = {what: trial.ask(code, fields=fields).body for what, (code, fields) in asked.items()}
    trial.expect("answers that are no JSON", [what for what, body in bodies.items() if not _is_json(body)], [])


@scenario("apache/rocketmq#4382", needs=Needs.V5)
def a_client_in_zone_mode_gets_its_own_zone(trial: Trial) -> None:
    """A client in zone mode wants the brokers of its own zone.

    Right: The route has its zone's brokers alone, and those of groups that have lost their master.
    """
    here, there = trial.broker("here", zone="z1"), trial.broker("there", zone="z2")
    orphan = trial.broker("orphan", broker_id=1, zone="z2")
    for broker in (here, there, orphan):
        broker.register(trial.topics("t", "u"))
    trial.settle()
    own = trial.addresses("t", __ZONE_MODE="true", __ZONE_NAME="Z1")
    trial.expect("the addresses for zone z1", own, sorted([here.address, orphan.address]))
    every = sorted([here.address, there.address, orphan.address])
    trial.expect("the addresses without a zone", trial.addresses("t"), every)


@scenario("apache/rocketmq#288", "apache/rocketmq#7884", "apache/rocketmq#7052")
def a_topic_deleted_on_its_broker_has_no_route(trial: Trial) -> None:
    """A topic is deleted on its broker, which registers without it from then on. The route stays.

    Right: A topic that its broker does not have any more has no route.

    Here: As in RocketMQ a registration may be a part of what a broker has (an incremental one, or one of
    `enableSplitRegistration`), so a topic that it does not name is not known to be deleted.
    `deleteTopicWithBrokerRegistration=true` removes it where brokers register in one piece: the next scenario.
    """
    broker = trial.broker()
    broker.register(trial.topics("kept", "deleted", "other"))
    broker.counter += 1
    broker.register(trial.topics("kept", "other"))
    trial.settle()
    trial.expect("the topics with a route", trial.routed(["kept", "deleted", "other"]), ["kept", "other"])


@scenario("apache/rocketmq#7052", needs=Needs.V5 | Needs.SERVERS)
def with_delete_topic_with_broker_registration_it_has_none(trial: Trial) -> None:
    """The same with deleteTopicWithBrokerRegistration=true.

    Right: The deleted topic has no route.
    """
    with trial.setting("deleteTopicWithBrokerRegistration", "true", back="false"):
        a_topic_deleted_on_its_broker_has_no_route(trial)


@scenario("apache/rocketmq#4263", needs=Needs.V5)
def a_topic_is_deleted_in_the_cluster_that_is_named(trial: Trial) -> None:
    """mqadmin deleteTopic names a cluster. The topic's route goes in all clusters.

    Right: The route in other clusters stays.
    """
    kept = trial.broker("kept", cluster=trial.named("kept"))
    deleted = trial.broker("deleted", cluster=trial.named("deleted"))
    for broker in (kept, deleted):
        broker.register(trial.topics("t", "u"))
    trial.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, fields={"topic": trial.named("t"), "clusterName": deleted.cluster})
    trial.settle()
    trial.expect("the addresses in the route", trial.addresses("t"), [kept.address])


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True
