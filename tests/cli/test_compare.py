"""`diff`, `why`, and lists of brokers at moments of which no snapshot is left."""

import json
import time
from datetime import UTC, datetime

import pytest

from namesrv_stream.rules.record_types import DeleteTopic, WipeWritePerm
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import FORMAT, TABLES
from tests.cli.registry import PublishedRegistry
from tests.counted import count_topics

MASTER, SLAVE, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
DAY_MS = 24 * 3_600_000


def now():
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def claimed(tmp_path_factory):
    return PublishedRegistry(str(tmp_path_factory.mktemp("claimed") / "registry"), now() - 200_000)


@pytest.fixture(scope="module")
def told(claimed, tmp_path_factory):
    registry = claimed.copied_to(str(tmp_path_factory.mktemp("told") / "registry"))
    registry.register(MASTER, "c1", "broker-a", topics=("TopicA", "Orders"))
    registry.now_ms += 10_000
    registry.register(OTHER, "c2", "broker-b")
    registry.now_ms += 1_000
    registry.command(WipeWritePerm(broker_name="broker-a", requested_by="ann@desk"))
    registry.command(DeleteTopic(topic="Orders"))
    registry.now_ms += 130_000
    registry.expire(OTHER)
    return registry


@pytest.fixture
def story(registry, told):
    """Epochs 2 to 6: two brokers come, permissions go, a topic goes, a broker goes."""
    registry.become(told)
    return registry


def lines(result):
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def texts(result):
    return [sentence["text"] for sentence in json.loads(lines(result)[0])]


def test_diff_names_rows_that_came_went_and_changed(run, story):
    heading, _columns, *rows = lines(run("diff 3 5"))
    assert heading.endswith("epoch 3 to epoch 5")
    assert [row.split(maxsplit=3)[:3] for row in rows] == [["topic", "-", "Orders"], ["topic", "~", "TopicA"]]
    assert rows[1].endswith("perm RW- -> R--")


def test_diff_as_json_has_both_rows_and_names_its_epochs(run, story):
    found = json.loads(lines(run("diff 4 5 --json"))[0])
    assert (found["from"], found["to"], found["epochs"]) == ("epoch 4", "epoch 5", [4, 5])
    [gone] = found["differences"]
    assert (gone["table"], gone["key"], gone["after"]) == ("topic", ["Orders", "broker-a"], None)


def test_diff_backwards_shows_the_way_back(run, story):
    [back] = json.loads(lines(run("diff 5 4 --json"))[0])["differences"]
    assert (back["before"], back["after"]["topic"]) == (None, "Orders")


@pytest.mark.parametrize("line", ["diff 1 99", "diff 99 1", "diff 0 3", "diff 3 0"])
def test_diff_of_an_epoch_that_never_was_names_the_newest(run, story, line):
    result = run(line)
    assert (result.exit_code, "the newest epoch is 6" in result.stderr) == (1, True)


def test_diff_shows_all_columns_but_the_key_and_times_and_permissions_as_people_write_them(run, registry):
    registry.register(MASTER, "c1", "broker-a", 1, enable_acting_master=True)
    told = {row.split()[0]: row for row in lines(run("diff 1 2"))[2:]}
    assert (
        told["broker"].split("broker-a 1")[1].split()
        == f"brokerAddr {MASTER}, clusterName c1, enableActingMaster True".split()
    )
    assert told["topic"].endswith("readQueueNums 8, writeQueueNums 8, perm R--, topicSysFlag 0")
    began = datetime.fromtimestamp(registry.now_ms / 1000, UTC).isoformat(timespec="milliseconds")
    assert f"heartbeatTimeoutMillis 2m, haServerAddr {MASTER}1, leaseBeganAt {began[:-6]}Z" in told["live"]


def test_why_shows_a_broker_name_in_order(run, story):
    assert texts(run("why broker-a --json")) == [
        f"{MASTER} registered as broker-a 0 of c1.",
        f"broker-a: 2 topics came (Orders, TopicA), because {MASTER} registered.",
        "ann@desk asked for WIPE_WRITE_PERM_OF_BROKER on broker-a: 2 topics changed (Orders, TopicA).",
        "an operator without a name asked for DELETE_TOPIC_IN_NAMESRV on broker-a: 1 topic went (Orders).",
    ]


def test_why_shows_an_address_and_its_end(run, story):
    last = [text for text in texts(run(f"why {OTHER} --json")) if "expired and" in text or "expired;" in text]
    assert last == [
        f"{OTHER} (broker-b 0 of c2) gave no sign of life for 0s and expired; it had been alive for 2m 11s."
    ]


def test_why_shows_the_end_of_an_address_that_had_lost_its_id_before(run, registry):
    registry.register(MASTER, "c1", "broker-a")
    registry.now_ms += 5_000
    registry.register(SLAVE, "c1", "broker-a")
    registry.now_ms += 5_000
    registry.expire(MASTER)
    lost, taken, *_, expired = texts(run("why broker-a --json"))[2:]
    assert lost.startswith(f"{MASTER} is no longer broker-a 0 of c1")
    assert taken == f"{SLAVE} registered as broker-a 0 of c1, in the place of {MASTER}."
    assert expired.startswith(f"{MASTER}, which was broker-a 0 of c1 no longer, gave no sign of life for")


def test_why_shows_a_topic_on_each_broker(run, story):
    assert texts(run("why TopicA --json")) == [
        f"TopicA came to broker-a with 8 read and 8 write queues, RW-, because {MASTER} registered.",
        f"TopicA came to broker-b with 8 read and 8 write queues, RW-, because {OTHER} registered.",
        "TopicA on broker-a changed its permission RW- to R--, because ann@desk asked for WIPE_WRITE_PERM_OF_BROKER.",
        f"TopicA left broker-b, because {OTHER} expired in silence.",
    ]


def test_why_since_leaves_out_what_was_before_and_ends_with_the_present(run, story):
    since = datetime.fromtimestamp((story.now_ms - 1_000) / 1000, UTC).isoformat()
    _heading, _columns, *rows = lines(run(f"why TopicA --since {since}"))
    assert [row.split(maxsplit=2)[-1] for row in rows[-1:]] == ["TopicA is on broker-a."]
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("subject", "nearest"),
    [
        ("broker-aa", "broker-a"),
        ("broker-bb", "broker-b"),  # which has gone
        ("10.0.0.33:10911", OTHER),
        ("topica", "TopicA"),
        ("Orders --topic", None),
    ],
)
def test_why_names_the_nearest_where_nothing_has_that_name(run, story, subject, nearest):
    result = run(f"why {subject}")
    assert (result.exit_code, nearest is None or f"Did you mean {nearest}" in result.stderr) == (
        int(nearest is not None),
        True,
    )


def test_why_until_leaves_out_what_came_later(run, story):
    until = datetime.fromtimestamp((story.now_ms - 130_000) / 1000, UTC).isoformat()
    assert len(texts(run("why TopicA --json"))) == 4
    assert len(texts(run(f"why TopicA --json --until {until}"))) == 3
    assert texts(run(f"why {OTHER} --json --until {until}")) == [
        f"{OTHER} registered as broker-b 0 of c2.",
        f"broker-b: 1 topic came (TopicA), because {OTHER} registered.",
    ]


MANY = tuple(f"T{number}" for number in range(300))


def test_why_tells_what_each_change_of_very_many_topics_did_to_one(run, registry):
    registry.register(MASTER, "c1", "broker-a", topics=MANY)
    registry.register(OTHER, "c1", "broker-b", topics=("U",))
    registry.command(WipeWritePerm(broker_name="broker-a", requested_by="ann@desk"))
    registry.register(SLAVE, "c1", "broker-b", 1, topics=MANY)  # a slave's topics do not count
    registry.expire(MASTER)
    assert texts(run("why T7 --json")) == [
        f"T7 came to broker-a with 8 read and 8 write queues, RW-, because {MASTER} registered.",
        "T7 on broker-a changed its permission RW- to R--, because ann@desk asked for WIPE_WRITE_PERM_OF_BROKER.",
        f"T7 left broker-a, because {MASTER} expired in silence.",
    ]
    assert run("why T300").exit_code == 1


def test_why_shows_a_restart_within_one_epoch_of_a_name_with_very_many_topics(run, registry):
    registry.register(MASTER, "c1", "broker-a", topics=MANY)
    registry.register(OTHER, "c1", "broker-b", topics=("T7", "U"))
    registry.now_ms += 1_000
    registry.expire(MASTER, publish=False)
    registry.now_ms += 1_000
    registry.register(SLAVE, "c1", "broker-a", topics=MANY)
    [_, _, left, came] = texts(run("why T7 --json"))
    assert left == f"T7 left broker-a, because {MASTER} expired in silence."
    assert came == f"T7 came to broker-a with 8 read and 8 write queues, RW-, because {SLAVE} registered."
    assert len(texts(run("why U --json"))) == 1
    since = datetime.fromtimestamp(registry.now_ms / 1000, UTC).isoformat()
    assert texts(run(f"why T7 --json --since {since}")) == [came]


def test_why_says_that_lines_of_a_former_release_count_topics_without_naming_them(run, registry, monkeypatch):
    count_topics(monkeypatch)
    registry.register(MASTER, "c1", "broker-a", topics=MANY)
    registry.register(OTHER, "c2", "broker-b", topics=("T7",))
    first, second = texts(run("why T7 --json"))
    assert first == "Up to here release 0.1.0 counted the topics of 1 change on broker-a and named none: T7 may be one."
    assert second.startswith("T7 came to broker-b")


@pytest.mark.parametrize("line", ["why broker-a", "history -b broker-a", "why broker-a --topic"])
def test_an_empty_registry_answers_that_it_has_no_such_name(run, line):
    result = run(line)
    assert result.exit_code == 1
    assert result.stderr.endswith("in epoch 1. There is none at all yet.\n")


def test_a_name_like_no_other_is_answered_with_some_that_there_are(run, registry):
    registry.register(MASTER, "c1", "broker-a", topics=MANY)
    assert "There is T0, T1, T10, T100, T101 and 295 more." in run("why zzz --topic").stderr


@pytest.mark.parametrize("line", ["why broker-a", "history", "diff 1 2", "snapshots --sql", "brokerList --as-of 1"])
def test_tables_of_a_newer_release_are_left_to_it(run, story, line):
    root = Root(story.root)
    for spec in TABLES.values():
        root.open(spec).alter.set_table_properties({"registry.format": str(FORMAT + 1)}, raise_if_not_exists=False)
    result = run(line)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert f"has registry format {FORMAT + 1}" in result.stderr


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    now_ms = now()
    old = PublishedRegistry(str(tmp_path_factory.mktemp("old") / "registry"), now_ms - 40 * DAY_MS)
    old.register(MASTER, "c1", "broker-a")
    old.now_ms += 60_000
    old.register(SLAVE, "c1", "broker-a", 1)
    old.now_ms += 60_000
    old.expire(MASTER, late_ms=90_000)
    old.now_ms = now_ms
    old.register(OTHER, "c2", "broker-b")
    return old


@pytest.fixture
def registry_of_old(registry, old):
    """Epochs 2 to 4 are 40 days old, past the retention of 30; epoch 5 is new."""
    registry.become(old)
    return registry


def test_a_moment_past_retention_is_made_from_the_history(run, registry_of_old):
    by_epoch, by_time = run("brokerList --as-of 3 --json"), run("clusterList --as-of 40d --json")
    assert [row["brokerAddr"] for row in json.loads(by_epoch.stdout)] == [MASTER, SLAVE]
    assert (by_epoch.stderr, by_time.stderr) == ("", "")
    assert json.loads(by_time.stdout)["clusterAddrTable"] == {"c1": ["broker-a"]}
    assert "10.0.0.2:10911" in run("topicRoute -t TopicA --as-of 3").stdout


def test_plain_lists_of_a_made_moment_leave_out_signs_of_life(run, registry_of_old):
    _heading, _verdict, columns, *rows = lines(run("clusterList --as-of 4"))
    assert columns.split() == ["cluster", "broker", "topics", "id", "address", "heard"]
    assert [row.split()[:5] for row in rows if "down, heard last" not in row] == [["c1", "broker-a", "1", "1", SLAVE]]
    assert any("down, heard last" in row for row in rows)


def test_diff_past_retention_has_the_same_rows(run, registry_of_old):
    result = run("diff 2 5 --json")
    found = json.loads(result.stdout)
    assert [(each["table"], each["key"]) for each in found["differences"] if each["table"] == "broker"] == [
        ("broker", ["broker-a", 0]),
        ("broker", ["broker-a", 1]),
        ("broker", ["broker-b", 0]),
    ]


@pytest.mark.parametrize("line", ["diff 2 99", "diff 99 2", "diff 2 0", "diff 0 2"])
def test_diff_past_retention_too_names_the_newest_for_an_epoch_that_never_was(run, registry_of_old, line):
    result = run(line)
    assert (result.exit_code, result.stdout, "the newest epoch is 5" in result.stderr) == (1, "", True)


def test_diff_past_retention_of_an_epoch_and_a_time_knows_of_an_expiry_that_came_late(run, registry_of_old):
    """At 30 s the master expired, at 60 s, in epoch 3, the slave came, and epoch 4 has the master's expiry."""
    begun_ms = registry_of_old.now_ms - 40 * DAY_MS
    at_40_s = datetime.fromtimestamp((begun_ms + 40_000) / 1000, UTC).isoformat()
    forth, back = (
        json.loads(run(f"diff {span} --json").stdout)["differences"] for span in (f"3 {at_40_s}", f"{at_40_s} 3")
    )
    gone = [(each["key"], each["after"]) for each in forth if each["table"] == "live"]
    assert gone == [([MASTER], None), ([SLAVE], None)]
    assert [(each["key"], each["before"]) for each in back if each["table"] == "live"] == gone


def test_history_past_retention_is_there_up_to_a_moment(run, registry_of_old):
    everything = json.loads(run("history --json").stdout)
    by_epoch = run("history --json --as-of 3")
    assert json.loads(by_epoch.stdout) == [event for event in everything if event["epoch"] <= 3] != []
    assert json.loads(run("history --json --as-of 30d").stdout) == [
        event for event in everything if event["epoch"] <= 4
    ]
    assert json.loads(run("history --json --until 30d").stdout) == [
        event for event in everything if event["epoch"] <= 4
    ]
    assert json.loads(run("history --json --until 50d").stdout) == []
