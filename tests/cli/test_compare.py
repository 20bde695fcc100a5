"""`diff` and `why`."""

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.rules.record_types import DeleteTopic, WipeWritePerm
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import FORMAT, TABLES

MASTER, SLAVE, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
DAY_MS = 24 * 3_600_000


def on(registry):
    """Return a function that runs the command line on these tables."""
    return lambda line: CliRunner().invoke(main, ["--root", registry.root, *line.split()])


@pytest.fixture(scope="module")
def told(claimed, tmp_path_factory):
    """Epochs 2 to 6: two brokers come, permissions go, a topic goes, a broker goes."""
    registry = claimed.copied_to(str(tmp_path_factory.mktemp("told") / "registry"))
    registry.now_ms -= 140_000
    registry.register(MASTER, "c1", "broker-a", topics=("TopicA", "Orders"))
    registry.now_ms += 10_000
    registry.register(OTHER, "c2", "broker-b")
    registry.now_ms += 1_000
    registry.command(WipeWritePerm(broker_name="broker-a", requested_by="ann@desk"))
    registry.command(DeleteTopic(topic="Orders"))
    registry.now_ms += 130_000
    registry.expire(OTHER)
    return registry


def lines(result):
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def texts(result):
    return [sentence["text"] for sentence in json.loads(lines(result)[0])]


def test_diff_names_rows_that_came_went_and_changed(told):
    run = on(told)
    heading, _columns, *rows = lines(run("diff 3 5"))
    assert heading.endswith("epoch 3 to epoch 5")
    assert [row.split(maxsplit=3)[:3] for row in rows] == [["topic", "-", "Orders"], ["topic", "~", "TopicA"]]
    assert rows[1].endswith("perm RW- -> R--")


def test_diff_as_json_has_both_rows_and_names_its_epochs(told):
    run = on(told)
    found = json.loads(lines(run("diff 4 5 --json"))[0])
    assert (found["from"], found["to"], found["epochs"]) == ("epoch 4", "epoch 5", [4, 5])
    [gone] = found["differences"]
    assert (gone["table"], gone["key"], gone["after"]) == ("topic", ["Orders", "broker-a"], None)
    [back] = json.loads(lines(run("diff 5 4 --json"))[0])["differences"]
    assert (back["before"], back["after"]["topic"]) == (None, "Orders")


@pytest.mark.parametrize("line", ["diff 1 99", "diff 0 3", "diff 99 2"])
def test_diff_of_an_epoch_that_never_was_names_the_newest(told, line):
    result = on(told)(line)
    assert (result.exit_code, result.stdout, "the newest epoch is 6" in result.stderr) == (1, "", True)


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


def test_why_shows_a_topic_on_each_broker(told):
    run = on(told)
    assert texts(run("why TopicA --json")) == [
        f"TopicA came to broker-a with 8 read and 8 write queues, RW-, because {MASTER} registered.",
        f"TopicA came to broker-b with 8 read and 8 write queues, RW-, because {OTHER} registered.",
        "TopicA on broker-a changed its permission RW- to R--, because ann@desk asked for WIPE_WRITE_PERM_OF_BROKER.",
        f"TopicA left broker-b, because {OTHER} expired in silence.",
    ]


@pytest.mark.parametrize(
    ("subject", "nearest"),
    [("broker-bb", "broker-b"), ("10.0.0.33:10911", OTHER), ("topica", "TopicA")],  # broker-b has gone
)
def test_why_names_the_nearest_where_nothing_has_that_name(told, subject, nearest):
    run = on(told)
    result = run(f"why {subject}")
    assert (result.exit_code, f"Did you mean {nearest}" in result.stderr) == (1, True)


def test_why_since_and_until_leave_out_what_was_before_and_came_later(told):
    run = on(told)
    since = datetime.fromtimestamp((told.now_ms - 1_000) / 1000, UTC).isoformat()
    _heading, _columns, *rows = lines(run(f"why TopicA --since {since}"))
    assert [row.split(maxsplit=2)[-1] for row in rows[-1:]] == ["TopicA is on broker-a."]
    assert len(rows) == 2
    until = datetime.fromtimestamp((told.now_ms - 130_000) / 1000, UTC).isoformat()
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


def test_an_empty_registry_answers_that_it_has_no_such_name(claimed):
    for line in ("why broker-a", "history -b broker-a", "why broker-a --topic"):
        result = on(claimed)(line)
        assert (result.exit_code, result.stderr.endswith("in epoch 1. There is none at all yet.\n")) == (1, True)


def test_a_name_like_no_other_is_answered_with_some_that_there_are(run, registry):
    registry.register(MASTER, "c1", "broker-a", topics=MANY)
    assert "There is T0, T1, T10, T100, T101 and 295 more." in run("why zzz --topic").stderr


def test_tables_of_a_newer_release_are_left_to_it(run, registry):
    for spec in TABLES.values():
        table = Root(registry.root).open(spec)
        table.alter.set_table_properties({"registry.format": str(FORMAT + 1)}, raise_if_not_exists=False)
    for line in ("why broker-a", "history", "diff 1 2", "snapshots --sql", "brokerList --as-of 1"):
        result = run(line)
        assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
        assert f"has registry format {FORMAT + 1}" in result.stderr
