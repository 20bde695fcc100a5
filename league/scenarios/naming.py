"""Names, clusters and ids, and their holders."""

from __future__ import annotations

from league.scenario import Needs, scenario
from league.trial import Trial
from namesrv_stream.wire.codes import RequestCode


@scenario("apache/rocketmq#1989")
def a_renamed_broker_leaves_its_old_name(trial: Trial) -> None:
    """A broker's name is changed by updateBrokerConfig. It registers under the new name; the old one stays beside it.

    Right: One address is one broker: under its new name alone.
    """
    broker = trial.broker("old")
    broker.register(trial.topics("t", "u"))
    broker.name = trial.named("new")
    broker.register(trial.topics("t", "u"))
    trial.settle()
    trial.expect("the broker names", sorted(trial.clusters()["brokers"]), [trial.named("new")])
    trial.expect("the addresses in the route", trial.addresses("t"), [broker.address])


@scenario("apache/rocketmq#3892")
def a_broker_that_changes_its_cluster_leaves_the_old_one(trial: Trial) -> None:
    """A broker is configured into another cluster. The cluster list goes on naming it under the old one too.

    Right: A broker is in the cluster it registers for.
    """
    broker = trial.broker(cluster=trial.named("before"))
    broker.register(trial.topics("t", "u"))
    broker.cluster = trial.named("after")
    broker.counter += 1
    broker.register(trial.topics("t", "u"))
    trial.settle()
    trial.expect("the clusters", trial.clusters()["clusters"], {trial.named("after"): [broker.name]})
    trial.expect("its cluster", trial.clusters()["brokers"][broker.name]["cluster"], trial.named("after"))


@scenario("apache/rocketmq#1450", "apache/rocketmq#3991")
def one_name_in_two_clusters_is_listed_where_it_is(trial: Trial) -> None:
    """Masters of two clusters have the same broker name. clusterList shows the second one's address in both clusters.

    Right: No cluster lists a broker that is not its own.
    """
    for cluster in ("first", "second"):
        trial.broker(cluster=trial.named(cluster)).register(trial.topics("t", "u"))
    trial.settle()
    info = trial.clusters()
    shown = info["brokers"][trial.named("broker")]["cluster"]
    trial.expect("the clusters that list the name", sorted(info["clusters"]), [shown])


@scenario("apache/rocketmq#3168")
def a_promoted_slave_has_one_id(trial: Trial) -> None:
    """After an election a broker is listed as master and as slave at the same address.

    Right: An address has one id.
    """
    broker = trial.broker(broker_id=2)
    broker.register(trial.topics("t", "u"))
    broker.broker_id = 0
    broker.register(trial.topics("t", "u"))
    trial.settle()
    addresses = trial.clusters()["brokers"][broker.name]["brokerAddrs"]
    trial.expect("the ids", addresses, {"0": broker.address})


@scenario("apache/rocketmq#1464")
def an_id_that_another_broker_held_is_back_with_its_owner(trial: Trial) -> None:
    """A second broker registers with the id of one that lives, by mistake or with a default id, and leaves. The first
    goes on to register what it has always said.

    Right: The one that lives holds its id again with its next registration.
    """
    owner, other = trial.broker(), trial.broker()
    owner.register(trial.topics("t", "u"))
    trial.settle()
    other.register(trial.topics("t", "u"))
    other.unregister()
    trial.settle()
    owner.register(trial.topics("t", "u"))
    trial.settle()
    trial.expect("the addresses in the route", trial.addresses("t"), [owner.address])


@scenario("apache/rocketmq#2717")
def a_topic_with_an_odd_name_costs_its_broker_nothing(trial: Trial) -> None:
    """A broker that compresses its registration has a topic with a blank in its name. The form separates fields by
    blanks.

    Right: All topics of the broker have routes.
    """
    broker = trial.broker()
    every = ["t", "u", "with a blank"]
    broker.register(trial.topics(*every), compressed=True)
    trial.settle()
    trial.expect("the topics with a route", trial.routed(every), every)


@scenario("apache/rocketmq#4522", "apache/rocketmq#10873")
def no_broker_is_listed_without_an_address(trial: Trial) -> None:
    """A topic is made before its broker has registered. 5.x refuses that registration and keeps a broker without
    address, on which tools fail.

    Right: What is refused leaves no trace; what is accepted has an address.
    """
    trial.broker().register(trial.topics("t"))
    trial.settle()
    brokers = trial.clusters()["brokers"]
    trial.expect("brokers without address", [name for name, each in brokers.items() if not each["brokerAddrs"]], [])


@scenario("apache/rocketmq#7626", "apache/rocketmq#7600", needs=Needs.V5)
def a_candidate_takes_no_write_permission(trial: Trial) -> None:
    """A follower registers with id -1 while its group elects. With it every topic of the group loses its write
    permission, and does not get it back.

    Right: A member that is no slave changes no permission; the master's topics stay writable.
    """
    master = trial.broker(acting_master=True)
    master.register(trial.topics("t", "u"))
    candidate = trial.broker(broker_id=-1, acting_master=True)
    candidate.register(trial.topics("t", "u"))
    candidate.broker_id = 1
    candidate.register(trial.topics("t", "u"))
    master.register(trial.topics("t", "u"))
    trial.settle()
    trial.expect("the permissions", trial.perms("t"), [6])


@scenario("apache/rocketmq#7626", needs=Needs.V5)
def a_master_that_is_back_is_writable(trial: Trial) -> None:
    """The master is away, its slave acts for it and the topics are read-only. The master comes back with the topics it
    had.

    Right: With the master the topics are writable again.
    """
    master, slave = trial.broker(acting_master=True), trial.broker(broker_id=1, acting_master=True)
    for broker in (master, slave):
        broker.register(trial.topics("t", "u"))
    master.unregister()
    trial.settle()
    trial.expect("the permissions without the master", trial.perms("t"), [4])
    slave.register(trial.topics("t", "u"))
    master.register(trial.topics("t", "u"))
    slave.register(trial.topics("t", "u"))
    trial.settle()
    trial.expect("the permissions", trial.perms("t"), [6])


@scenario("apache/rocketmq#104")
def two_names_that_differ_in_a_blank_are_two_clusters(trial: Trial) -> None:
    """A properties file has a blank behind the cluster's name. clusterList shows two clusters of the same name.

    Right: Names are taken as they are sent. `clusterList` and console of the registry show such a name in quotes.
    """
    names = [trial.named("cluster"), f"{trial.named('cluster')} "]
    for index, name in enumerate(names):
        trial.broker(f"broker{index}", cluster=name).register(trial.topics("t", "u"))
    trial.settle()
    listed = trial.json(RequestCode.GET_BROKER_CLUSTER_INFO)["clusterAddrTable"]
    trial.expect("the clusters", sorted(set(names) & set(listed)), names)
