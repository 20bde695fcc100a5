"""Each line of history as a sentence, and no sentence that is untrue."""

import pytest

from namesrv_stream.answers.story import story_of_broker, story_of_group, story_of_topic
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.history import log_gap_line
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    BrokerHeartbeat,
    DataVersion,
    DeleteKvConfig,
    DeleteTopic,
    PutKvConfig,
    QueueData,
    RegisterBroker,
    RegisterTopic,
    RetireBroker,
    TopicConfig,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import BrokerEventRow, LogPosition, RowChange, TopicRow
from tests.history.fleet import RandomLife

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
NOBODY = "an operator without a name"
ASKED = {"requested_by": "ann@desk"}


class Life:
    """A registry in which A is broker-a 0 of c1 with the topic T, and the lines of what happens next."""

    def __init__(self):
        self.rules = RouteRegistry(NamesrvSettings())
        self.second = 0
        self.register()
        self.rules.take_changes()

    def at(self):
        self.second += 1
        return LogPosition(1_000 * self.second, 0, self.second)

    def register(self, address=A, broker_id=0, name="broker-a", topics=("T",), counter=0, state=0, **fields):
        request = RegisterBroker(
            cluster_name="c1",
            broker_name=name,
            broker_id=broker_id,
            broker_addr=address,
            data_version=DataVersion(state, 0, counter),
            topic_config_table=dict.fromkeys(topics, TopicConfig(8, 8, 6)),
            **fields,
        )
        self.rules.apply(request, self.at())

    def end(self, kind, address=A, silent_ms=0):
        at = self.at()
        heard_ms = at.event_time - silent_ms
        self.rules.apply(BrokerHeartbeat(broker_addr=address), at._replace(event_time=heard_ms))
        self.rules.end(address, kind, at.event_time, at)

    def command(self, command):
        self.rules.apply(command, self.at())

    def lines(self):
        return self.rules.take_changes().events


@pytest.fixture
def life():
    return Life()


def texts(sentences):
    return [sentence.text for sentence in sentences]


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (lambda life: life.register(B, 1), [f"{B} registered as broker-a 1 of c1"]),
        (lambda life: life.register(B, 1, **ASKED), [f"{B} registered as broker-a 1 of c1, as ann@desk"]),
        (
            lambda life: life.register(B),
            [
                f"{A} is no longer broker-a 0 of c1, which another address or another id replaced",
                f"{B} registered as broker-a 0 of c1, in the place of {A}",
            ],
        ),
        (
            lambda life: life.register(broker_id=1),
            [
                f"{A} is no longer broker-a 0 of c1, which another address or another id replaced",
                f"{A}, alive already, is broker-a 1 of c1 now",
            ],
        ),
        (
            lambda life: life.register(zone_name="z", filter_server_list=["f:1"]),
            [f"{A} (broker-a 0 of c1) registered again and changed its zone none to z, its filter servers none to f:1"],
        ),
        (
            lambda life: life.register(topics=("T", "U"), counter=1),
            [f"broker-a: 1 topic came (U), because {A} registered"],
        ),
        (
            lambda life: life.register(counter=1, topic_queue_mapping_info_map={"T": {"bname": "broker-a"}}),
            [f"broker-a: 1 static mapping came (T), because {A} registered"],
        ),
        (
            lambda life: life.end("UNREGISTERED"),
            [
                f"{A} (broker-a 0 of c1) unregistered in order; it had been alive for 1s",
                f"broker-a: 1 topic went (T), because {A} unregistered",
            ],
        ),
        (
            lambda life: life.end("CHANNEL_CLOSED"),
            [
                f"{A} (broker-a 0 of c1) lost its last connection; it had been alive for 1s",
                f"broker-a: 1 topic went (T), because {A} lost its last connection",
            ],
        ),
        (
            lambda life: life.end("EXPIRED", silent_ms=1_000),
            [
                f"{A} (broker-a 0 of c1) gave no sign of life for 1s and expired; it had been alive for 1s",
                f"broker-a: 1 topic went (T), because {A} expired in silence",
            ],
        ),
        (
            lambda life: life.register(name="broker-b", topics=()),
            [
                f"{A} (broker-a 0 of c1) left, to register under another name or cluster; it had been alive for 1s",
                f"broker-a: 1 topic went (T), because {A} registered",
                f"{A} registered as broker-b 0 of c1",
            ],
        ),
    ],
)
def test_what_brokers_do_has_a_sentence(life, happens, told):
    happens(life)
    assert [text.removesuffix(".") for text in texts(story_of_broker(life.lines()))] == told


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        (WipeWritePerm(broker_name="broker-a"), " on broker-a: 1 topic changed (T)"),
        (WipeWritePerm(broker_name="nobody"), ": nothing changed (brokerName=nobody)"),
        (AddWritePerm(broker_name="broker-a"), ": nothing changed (brokerName=broker-a)"),
        (DeleteTopic(topic="T"), " on broker-a: 1 topic went (T)"),
        (DeleteTopic(topic="U"), ": nothing changed (topic=U)"),
        (RegisterTopic(topic="N", queue_datas=[QueueData("broker-a", 4, 4, 6)]), " on broker-a: 1 topic came (N)"),
        (RegisterTopic(topic="N", queue_datas=[QueueData("nobody", 4, 4, 6)]), ": nothing changed (topic=N)"),
        (
            RetireBroker(cluster_name="c1", broker_name="nobody", broker_id=1, reason="sold"),
            " of nobody 1 of c1 (reason: sold)",
        ),
        (PutKvConfig(namespace="NS", key="k", value="v"), ": NS/k was set to v"),
        (PutKvConfig(namespace="OLD", key="k", value="w"), ": OLD/k was set to w instead of v"),
        (PutKvConfig(namespace="OLD", key="k", value="v"), ": nothing changed (namespace=OLD, key=k, value=v)"),
        (DeleteKvConfig(namespace="OLD", key="k"), ": OLD/k was removed, which was v"),
        (DeleteKvConfig(namespace="NS", key="k"), ": nothing changed (namespace=NS, key=k)"),
        (
            UpdateNamesrvConfig(properties={"orderMessageEnable": "false"}),
            ": orderMessageEnable was set to false instead of true",
        ),
        (UpdateNamesrvConfig(properties={"orderMessageEnable": "true"}), ": nothing changed"),
    ],
)
def test_an_operators_command_has_a_sentence_with_its_effect(life, command, effect):
    life.command(PutKvConfig(namespace="OLD", key="k", value="v"))
    life.command(UpdateNamesrvConfig(properties={"orderMessageEnable": "true"}))
    life.lines()
    life.command(command)
    assert texts(story_of_broker(life.lines())) == [f"{NOBODY} asked for {command.__struct_config__.tag}{effect}."]


def test_a_refusal_has_a_sentence_with_and_without_a_former_lease(life):
    life.register(state=2)
    life.register(B, 1)
    life.lines()
    life.register(B, state=1)
    life.register(B, state=1)
    ended, refused = texts(story_of_broker(life.lines()))
    assert ended.startswith(f"{B} (broker-a 1 of c1) was refused under another identity, which ended its lease;")
    assert refused == f"{B} (broker-a 0 of c1) was refused: the address that holds this id has a higher state version."


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (
            lambda life: life.register(counter=1, topic_queue_mapping_info_map={"T": {"bname": "broker-a"}}),
            [f"the static mapping of T on broker-a came, because {A} registered."],
        ),
        (
            lambda life: life.command(RegisterTopic(topic="T", queue_datas=[QueueData("broker-a", 4, 8, 6)], **ASKED)),
            ["T on broker-a changed read queues 8 to 4, because ann@desk asked for REGISTER_TOPIC_IN_NAMESRV."],
        ),
        (
            lambda life: life.command(DeleteTopic(topic="T", cluster_name="c2", **ASKED)),
            ["ann@desk asked for DELETE_TOPIC_IN_NAMESRV of T: nothing changed."],
        ),
        (lambda life: life.end("EXPIRED"), [f"T left broker-a, because {A} expired in silence."]),
    ],
)
def test_each_change_of_a_topic_has_a_sentence(life, happens, told):
    happens(life)
    naming = [line for line in life.lines() if names("T", line)]
    assert texts(story_of_topic("T", naming)) == told


def names(topic, line):
    """A line that changed a topic, or is a command about it."""
    return f"'{topic}'" in str([each.key for each in line.changes]) or f'"topic":"{topic}"' in (line.command or "")


@pytest.mark.parametrize("seed", range(10))
def test_every_line_has_a_sentence_and_nothing_changed_only_if_it_has_no_row(seed):
    life = RandomLife(seed, 0)
    for _ in range(200):
        life.step()
    for line in life.rules.take_changes().events:
        [sentence] = story_of_broker([line])
        changed = line.changes
        assert ("nothing changed" in sentence.text) is (
            not changed and line.type not in ("REFUSED", "ID_LOST", "RETIRE_BROKER")
        )
        for topic in "TUV":
            if names(topic, line):
                story = texts(story_of_topic(topic, [line]))
                assert story
                assert all(("nothing changed" in text) is (not changed) for text in story)


@pytest.mark.parametrize(
    ("happens", "undid"),
    [
        (lambda life: life.register(counter=1), "; this undid the WIPE_WRITE_PERM_OF_BROKER of epoch 0 by ann@desk."),
        (lambda life: life.register(), None),
        (lambda life: life.command(AddWritePerm(broker_name="broker-a")), None),
    ],
    ids=["a new version brings its permissions", "the same version changes nothing", "an operator does it himself"],
)
def test_the_registration_that_undid_an_operators_wipe_is_named(life, happens, undid):
    life.command(WipeWritePerm(broker_name="broker-a", **ASKED))
    happens(life)
    told = [text for text in texts(story_of_broker(life.lines())) if "undid" in text]
    assert len(told) == (undid is not None)
    assert all(text.endswith(undid) for text in told)


def test_a_wipe_is_undone_once_and_one_that_changed_nothing_is_not(life):
    life.command(WipeWritePerm(broker_name="broker-a", **ASKED))
    life.register(counter=1)
    life.register(topics=("T", "U"), counter=2)
    life.command(WipeWritePerm(broker_name="nobody"))
    assert sum("undid" in text for text in texts(story_of_broker(life.lines()))) == 1


def test_a_line_of_a_later_release_is_told_by_its_type_and_asked_for_by_nobody():
    line = log_gap_line(LogPosition(1_000, 0, 1), 1)._replace(type="MOON_FELL", cause="MOON")
    assert texts(story_of_broker([line])) == ["MOON_FELL, which this release does not know, because of MOON."]


def line_of(kind, name, broker_id=0, **more):
    fields = dict.fromkeys(BrokerEventRow._fields) | {
        "type": kind,
        "broker_name": name,
        "broker_id": broker_id,
        "changes": (),
    }
    return BrokerEventRow(**fields | {"epoch": 1, "event_time": 0, "cluster_name": "cluster-b", "changes": ()} | more)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([line_of("EXPIRED", "b-2")] * 8, "b-2 0 of cluster-b expired 8 times."),
        ([line_of("EXPIRED", "b-2"), line_of("EXPIRED", "b-2", 1)], "2 brokers of cluster-b expired: b-2 0, b-2 1."),
        (
            [line_of("REGISTERED", f"b-{number % 7}") for number in range(9)],
            "7 brokers of cluster-b registered, 9 times in all: b-0 0, b-1 0, b-2 0, b-3 0, b-4 0 and 2 more.",
        ),
        (
            [
                line_of(
                    "DELETE_TOPIC_IN_NAMESRV",
                    f"b-{number}",
                    requested_by="ann@desk",
                    reason="retired",
                    changes=(RowChange("topic", ("T", f"b-{number}"), TopicRow("T", f"b-{number}", 8, 8, 6, 0), None),),
                )
                for number in range(8)
            ],
            "ann@desk asked for DELETE_TOPIC_IN_NAMESRV of T on b-0, b-1, b-2, b-3, b-4 and 3 more (reason: retired).",
        ),
    ],
)
def test_one_sentence_is_for_a_group_and_names_what_it_has(lines, told):
    assert story_of_group(lines) == told
