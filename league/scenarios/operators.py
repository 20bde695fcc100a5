"""Actions of operators, and actions that others could do in their place."""

from __future__ import annotations

from league.scenario import Needs, scenario
from league.trial import Trial
from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.wire.codes import RequestCode, ResponseCode


@scenario("apache/rocketmq#6843")
def no_path_is_changed_by_update_namesrv_config(trial: Trial) -> None:
    """updateNamesrvConfig changes where the name server writes a file, and what it writes: CVE-2023-37582, code
    execution.

    Right: Paths are refused.
    """
    paths = ("configStorePath", "kvConfigPath", "rocketmqHome", "configBlackList")
    codes = {
        path: trial.ask(RequestCode.UPDATE_NAMESRV_CONFIG, f"{path}=/tmp/league-{path}\n".encode()).code
        for path in paths
    }
    trial.expect("paths that were accepted", [path for path, code in codes.items() if code == 0], [])


@scenario("apache/rocketmq#1842", "apache/rocketmq#7542")
def a_stranger_cannot_wipe_a_broker(trial: Trial) -> None:
    """A stranger who reaches the port can take the write permission of every topic by wipeWritePerm.

    Right: A command without a signature is refused.

    Here: Without authentication switched on the gateway trusts its network, as RocketMQ's NameServer does.
    """
    broker = trial.broker()
    broker.register(trial.topics("t", "u"))
    trial.settle()
    code = trial.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, fields={"brokerName": broker.name}).code
    trial.settle()
    trial.expect(
        "the code, and the permissions after it", (code != ResponseCode.SUCCESS, trial.perms("t")), (True, [6])
    )


@scenario("apache/rocketmq#1377", "apache/rocketmq#313")
def a_wiped_write_permission_outlasts_a_changed_topic(trial: Trial) -> None:
    """An operator takes a broker's write permission before a shutdown. One of its topics changes, the next registration
    has a new version, and all topics are writable again.

    Right: The write permission stays away until an operator gives it back or the broker starts anew.

    Here: Rule A1 as in RocketMQ: a wipe lasts until its broker registers under a new version. What lasts longer is
    `brokerPermission=4` in the broker's own configuration.
    """
    broker = trial.broker()
    broker.register(trial.topics("t", "u"))
    trial.settle()
    trial.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, fields={"brokerName": broker.name})
    trial.settle()
    trial.expect("the permissions after the wipe", trial.perms("t"), [4])
    broker.counter += 1
    broker.register(trial.topics("t") | {trial.named("u"): TopicConfig(16, 16, 6)})
    trial.settle()
    trial.expect("the permissions after a change", trial.perms("t"), [4])


@scenario("apache/rocketmq#1848", needs=Needs.V5)
def a_wiped_write_permission_can_be_given_back(trial: Trial) -> None:
    """A wipe can only be undone by a restart of the broker: there is no command for it.

    Right: addWritePerm makes the topics writable again.
    """
    broker = trial.broker()
    broker.register(trial.topics("t", "u"))
    for code in (RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER):
        trial.settle()
        trial.ask(code, fields={"brokerName": broker.name})
    trial.settle()
    trial.expect("the permissions", trial.perms("t"), [6])


@scenario("apache/rocketmq#1858", needs=Needs.V5)
def a_read_only_topic_is_read_only_after_its_broker_registers(trial: Trial) -> None:
    """addWritePerm, as it was added, makes topics writable that their broker has as read-only. They stay so for as long
    as its version stays.

    Right: What the broker registers next is shown.
    """
    broker = trial.broker()
    topics = trial.topics("t") | trial.topics("read-only", perm=4)
    broker.register(topics)
    trial.settle()
    trial.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, fields={"brokerName": broker.name})
    trial.settle()
    reconnected = broker.over(trial.connect())
    reconnected.register(topics)
    trial.settle()
    trial.expect("the permissions", trial.perms("read-only"), [4])


@scenario("apache/rocketmq#10838", "apache/rocketmq#10688")
def an_order_configuration_is_stored_as_it_is_sent(trial: Trial) -> None:
    """An operator types a full-width colon, or a `;` too many. Every client of the topic fails at the value.

    Right: The wire stores any text, so that operators can see and replace it. Command line and console of the registry
    refuse such a value, and its `doctor` names one that is stored.
    """
    key = {"namespace": "ORDER_TOPIC_CONFIG", "key": trial.named("t")}
    for value in ("broker-a\uff1a8", "broker-a:8;", "broker-a:-1"):
        trial.ask(RequestCode.PUT_KV_CONFIG, fields=key | {"value": value})
        trial.settle()
        stored = (trial.ask(RequestCode.GET_KV_CONFIG, fields=key).ext_fields or {}).get("value")
        trial.expect("the stored value", stored, value)
