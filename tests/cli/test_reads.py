import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from namesrv_stream.answers.overview import overview
from namesrv_stream.answers.subject import Seen
from namesrv_stream.cli.entry import main
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules.record_types import PutKvConfig, Scan, UpdateNamesrvConfig, WipeWritePerm
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import RejectedRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from tests.clock import now_ms

MASTER, SLAVE, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


@pytest.fixture(scope="module")
def made(claimed, tmp_path_factory):
    registry = claimed.copied_to(str(tmp_path_factory.mktemp("cluster") / "registry"))
    registry.register(MASTER, "c1", "broker-a", topics=("TopicA", "Orders"))
    registry.now_ms += 10_000
    registry.register(SLAVE, "c1", "broker-a", 1)
    registry.now_ms += 10_000
    registry.register(OTHER, "c2", "broker-b", zone_name="z1", filter_server_list=["10.0.0.9:1", "10.0.0.9:2"])
    return registry


@pytest.fixture
def look(made):
    """Runs the command line on that registry as it is: arguments as in a shell, split at blanks."""
    return lambda line: CliRunner().invoke(main, ["--root", made.root, *line.split()])


@pytest.fixture
def cluster(registry, made):
    """Epochs 2 to 4: a master with two topics, its slave, and a broker in a zone of another cluster."""
    registry.become(made)
    return registry


def at(epoch_ms):
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat()


def lines(result):
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_route_as_json_is_topic_route_data(look):
    assert lines(look("topicRoute -t TopicA --json")) == [
        '{"brokerDatas":['
        '{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"c1",'
        '"enableActingMaster":false},'
        '{"brokerAddrs":{"0":"10.0.0.3:10911"},"brokerName":"broker-b","cluster":"c2","enableActingMaster":false,'
        '"zoneName":"z1"}],'
        '"filterServerTable":{"10.0.0.3:10911":["10.0.0.9:1","10.0.0.9:2"]},'
        '"queueDatas":['
        '{"brokerName":"broker-a","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8},'
        '{"brokerName":"broker-b","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
    ]


def test_a_time_between_two_snapshots_is_answered_to_the_millisecond(run, registry):
    registry.register(MASTER, "c1", "broker-a", publish=False)
    registry.publish()
    registry.now_ms += 60_000
    registry.register(SLAVE, "c1", "broker-a", 1, publish=False)
    came_ms = registry.now_ms
    registry.now_ms += 60_000
    registry.register(OTHER, "c2", "broker-b")
    found = {at_ms: run(f"brokerList --json --as-of {at(at_ms)}") for at_ms in (came_ms - 1, came_ms)}
    addresses = [[row["brokerAddr"] for row in json.loads(each.stdout)] for each in found.values()]
    assert addresses == [[MASTER], [MASTER, SLAVE]]
    assert not any(each.stderr for each in found.values())


def test_plain_route_has_a_line_an_address(look):
    _heading, columns, *rows = lines(look("topicRoute -t TopicA"))
    assert columns.split() == [
        "cluster",
        "broker",
        "read",
        "write",
        "perm",
        "id",
        "address",
        "zone",
        "filter",
        "servers",
    ]
    assert [row.split() for row in rows] == [
        ["c1", "broker-a", "8", "8", "RW-", "0", MASTER],
        ["c1", "broker-a", "8", "8", "RW-", "1", SLAVE],
        ["c2", "broker-b", "8", "8", "RW-", "0", OTHER, "z1", "10.0.0.9:1,", "10.0.0.9:2"],
    ]


def test_route_of_a_zone_leaves_other_masters_out(look):
    route = json.loads(look("topicRoute -t TopicA --zone Z1 --json").stdout)
    assert [group["brokerName"] for group in route["brokerDatas"]] == ["broker-b"]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("topicRoute -t topica", "TopicA"),
        ("topicList -c cc2", "c2"),
        ("history --broker broker-x", "broker-b or broker-a"),
        ("getKvConfig -s NS -k k", ""),
        ("history --broker x'OR'1'='1", ""),
    ],
)
def test_unknown_name_is_not_found_and_the_nearest_is_named(look, line, meant):
    result = look(line)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"Did you mean {meant}?" in result.stderr if meant else "Did you mean" not in result.stderr


def test_topics_are_all_or_a_clusters(look):
    assert json.loads(look("topicList --json").stdout) == {"topicList": ["Orders", "TopicA"]}
    assert json.loads(look("topicList -c c2 --json").stdout) == {"topicList": ["TopicA"]}
    assert [row.split()[:3] for row in lines(look("topicList"))[2:]] == [["Orders", "8", "8"], ["TopicA", "16", "16"]]


def test_lease_without_an_id_is_marked(run, cluster):
    cluster.register("10.0.0.4:10911", "c2", "broker-b")
    leases = {lease["brokerAddr"]: lease for lease in json.loads(run("brokerList --json").stdout)}
    assert {address: lease["holdsId"] for address, lease in leases.items()} == {
        MASTER: True,
        SLAVE: True,
        OTHER: False,
        "10.0.0.4:10911": True,
    }
    assert any("(0)" in line and OTHER in line for line in lines(run("brokerList")))


def test_epoch_that_is_none_is_one_message(look):
    for epoch in (0, 5, 99999999999999999999):
        result = look(f"topicList --as-of {epoch}")
        assert (result.exit_code, "the newest epoch is 4" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("topicList --as-of soon", "03:12"),
        ("history --since soon", "03:12"),
        ("history --since 3", "03:12"),
        ("topicRoute", "--topic"),
        ("topicList --as-of 2 --watch", "--watch"),
        ("history --limit 0", "--limit"),
        ("topicLits", "topicList"),
        ("--tz Mars/X topicList", "there is no such zone"),
        ("topicList --tz Mars/X", "there is no such zone"),
        ("", "topicRoute"),
    ],
)
def test_wrong_usage_ends_with_2(look, line, names):
    result = look(line)
    assert result.exit_code == 2
    assert names in result.output


def test_history_is_of_a_broker_name_or_an_address(run, cluster):
    cluster.expire(SLAVE)
    of_name = json.loads(run("history --broker broker-a --json").stdout)
    of_address = json.loads(run(f"history --broker {SLAVE} --json").stdout)
    assert [event["type"] for event in of_name] == ["REGISTERED", "TOPICS_CHANGED", "REGISTERED", "EXPIRED"]
    assert [(event["type"], event["cause"]) for event in of_address] == [
        ("REGISTERED", "REGISTER_BROKER"),
        ("EXPIRED", "SILENCE"),
    ]
    assert of_address[-1]["leaseMillis"] == 10_000
    assert of_address[-1]["before"]["live"][0]["brokerAddr"] == SLAVE
    assert "after" not in of_address[-1]


def test_a_broker_that_the_guard_holds_is_suspect_in_lists_and_story(run, registry):
    registry.rules = RouteRegistry(NamesrvSettings(expiry_guard_ratio=0.5, tick_gap_millis=0))
    registry.command(Scan(), publish=False)
    registry.register(MASTER, "c1", "broker-a", heartbeat_timeout_millis=10_000)
    registry.now_ms += 10_001
    registry.command(Scan())
    (lease,) = json.loads(run("brokerList --json").stdout)
    assert lease["suspectSince"] == iso_text(registry.now_ms)
    assert "before, suspect" in run("brokerList").stdout
    assert "before, suspect" in run("clusterList").stdout
    assert "is suspect: the guard against mass expiry keeps it in the routes" in run("why broker-a").stdout


def test_a_time_without_a_tick_is_in_history_and_in_the_story_of_brokers_that_were_there(run, cluster):
    cluster.gap(11_000)
    for command in ("brokerList", "clusterList", f"why {MASTER}"):
        assert "3s before" in run(command).stdout, "the log's clock goes on by 3 s while nobody can write (D9)"
    cluster.register("10.0.0.7:10911", "c1", "broker-new")
    (shown,) = [line for line in run("history").stdout.splitlines() if "LOG_GAP" in line]
    assert "no tick for 11s: Kafka or all gateways were away" in shown
    assert "no tick for 11s: Kafka or all gateways were away" in run("why broker-a").stdout
    assert "no tick" not in run("why broker-new").stdout
    assert "LOG_GAP" not in run("history --broker broker-a").stdout


def test_a_registration_with_a_new_version_alone_is_shown_on_request_only(run, cluster):
    def told(command):
        return json.loads(run(f"{command} --json").stdout)

    commands = ("history --broker broker-a", "why broker-a", f"why {SLAVE}")
    before = [told(command) for command in commands]
    cluster.now_ms += 1_000
    cluster.register(SLAVE, "c1", "broker-a", 1)
    assert [told(command) for command in commands] == before
    assert [len(told(f"{command} --versions")) for command in commands] == [len(each) + 1 for each in before]
    cluster.now_ms += 1_000
    cluster.register(SLAVE, "c1", "broker-a", 1, zone_name="z2")
    assert [len(told(command)) for command in commands] == [len(each) + 1 for each in before], "a zone and a version"


def test_history_gives_the_newest_since_a_time(look, made):
    all_events = json.loads(look("history --json").stdout)
    assert [event["epoch"] for event in all_events] == [2, 2, 3, 4, 4]
    assert json.loads(look("history --json --limit 2").stdout) == all_events[-2:]
    assert json.loads(look(f"history --json --since {at(made.now_ms)}").stdout) == all_events[-2:]
    assert json.loads(look(f"history --json --since {at(made.now_ms + 1)}").stdout) == []
    assert json.loads(look("history --json --as-of 2").stdout) == all_events[:2]
    refused = look("history --since 10m --until 2h")
    assert (refused.exit_code, "is later than" in refused.stderr) == (2, True)


def test_history_shows_what_changed_and_its_sender(run, cluster):
    cluster.command(PutKvConfig(namespace="NS", key="k", value="v", requested_by="me@here"))
    cluster.command(WipeWritePerm(broker_name="broker-a", requested_by="me@here"))
    cluster.command(WipeWritePerm(broker_name="nobody", requested_by="me@here"))
    told = lines(run("history --limit 3"))[-3:]
    assert "me@here asked for PUT_KV_CONFIG: NS/k was set to v." in told[0]
    assert "WIPE_WRITE_PERM_OF_BROKER on broker-a: 2 topics changed (Orders, TopicA)." in told[1]
    assert "WIPE_WRITE_PERM_OF_BROKER: nothing changed (brokerName=nobody)." in told[2]


def test_kv_value_stands_alone(run, registry):
    registry.command(PutKvConfig(namespace="NS", key="k", value="a b"))
    assert lines(run("getKvConfig -s NS -k k")) == ["a b"]
    assert json.loads(run("getKvConfig -s NS -k k --json").stdout) == {"value": "a b"}
    assert json.loads(run("listKvConfig -s NS --json").stdout) == {"table": {"k": "a b"}}


def test_setting_changed_at_run_time_is_in_force_for_lookups(run, registry):
    registry.register(MASTER, "c1", "broker-a")
    registry.command(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:8"))
    assert "orderTopicConf" not in json.loads(run("topicRoute -t TopicA --json").stdout)
    registry.command(UpdateNamesrvConfig(properties={"orderMessageEnable": "true"}))
    assert json.loads(run("topicRoute -t TopicA --json").stdout)["orderTopicConf"] == "broker-a:8"
    assert "orderMessageEnable=true" in lines(run("getNamesrvConfig"))


def test_snapshots_are_listed_newest_first(look):
    rows = json.loads(look("snapshots --json --limit 2").stdout)
    assert [row["epoch"] for row in rows] == [4, 3]
    assert rows[0]["offsets"] == {"0": 3}
    assert [row["epoch"] for row in json.loads(look("snapshots --json --as-of 3").stdout)] == [3]


def test_times_are_in_utc_or_in_the_zone_of_tz_wherever_the_machine_is(look, machine_in):
    machine_in("America/New_York")
    for command in ("history", "snapshots", "why broker-a", "clusterList"):
        for option, zone in (("", "UTC"), (" --tz Asia/Kolkata", "IST")):
            heading = lines(look(command + option))[0]
            assert re.search(rf"(event time|published) (\S+ )?\d\d:\d\d:\d\d {zone}", heading), command


def test_a_list_says_how_many_there_are_of_which_it_shows_some(look):
    assert lines(look("snapshots --limit 2"))[0].startswith("the newest 2 of 4 snapshots")
    events = len(lines(look("history"))) - 2
    assert lines(look("history --limit 1"))[0].startswith(f"the newest 1 of {events} events")


def test_rejected_records_are_listed_newest_first_with_their_reason(run, registry):
    at_ms = registry.now_ms
    assert lines(run("rejected"))[0].startswith("0 rejected records")
    rows = [RejectedRow(at_ms - 4 + n, 0, n, "a\x1b[2J", b"[" * 999, 999, f"reason {n}") for n in range(3)]
    registry.publish(rejected=[*rows, RejectedRow(at_ms, 0, 3, None, None, 0, "no value")])
    _heading, columns, *shown = lines(run("rejected --limit 2"))
    assert columns.split() == ["event", "time", "offset", "key", "bytes", "reason"]
    assert [row.split()[-4:] for row in shown[1:]] == [["a\\x1b[2J", "999", "reason", "2"]]
    assert shown[0].split()[-4:] == ["3", "0", "no", "value"]
    newest = json.loads(lines(run("rejected --json --limit 1"))[0])
    assert [(each["offset"], each["key"], each["text"]) for each in newest] == [(3, None, "")]
    assert "`namesrv-stream rejected` lists them" in run("status").stdout


def test_sql_pins_each_table_at_the_version_of_one_snapshot(look):
    versions = json.loads(look("snapshots --json --as-of 3").stdout)[0]["versions"]
    comment, *statements = lines(look("snapshots --sql --as-of 3"))
    pinned = [
        re.match(r".*VIEW (\w+) AS SELECT \* FROM delta.`.*` VERSION AS OF (\d+)(?: WHERE .*)?;", s) for s in statements
    ]
    found = dict(match.groups() for match in pinned if match)
    assert found == {name: str(version) for name, version in versions.items()}
    assert "epoch 3" in comment


def test_sql_of_one_view_has_what_it_reads_and_nothing_else(look):
    all_of_them = lines(look("snapshots --sql"))
    statements = lines(look("snapshots --sql --only broker_dim"))
    named = re.findall(r"VIEW (\w+) AS", "\n".join(statements))
    assert set(statements) <= set(all_of_them)
    assert named[-1] == "broker_dim"
    assert {"broker", "broker_event"} <= set(named) < set(re.findall(r"VIEW (\w+) AS", "\n".join(all_of_them)))


def test_sql_for_a_schema_makes_the_same_views_permanent(look):
    temporary = look("snapshots --sql").stdout
    comment, rest = temporary.split("\n", 1)
    assert "TEMPORARY VIEW" in rest
    wanted = rest.replace(" TEMPORARY VIEW ", " VIEW ")
    permanent = look("snapshots --sql --schema routes").stdout
    assert permanent == f"{comment}\nCREATE SCHEMA IF NOT EXISTS `routes`;\nUSE `routes`;\n{wanted}"


def test_a_schema_that_is_no_name_and_one_without_sql_are_refused(look):
    for options in ("--sql --schema a;b", "--sql --schema `x`", "--schema routes"):
        refused = look(f"snapshots {options}")
        assert (refused.exit_code, "Error" in refused.stderr) == (2, True)


def test_old_snapshot_with_live_brokers_is_warned_of_unless_the_jobs_sign_says_that_it_holds(run, registry):
    def assert_is(state, *, is_stale):
        facts = json.loads(run("status --no-kafka --json").stdout)
        assert ("warning" in run("topicList").stderr, facts["stale"], facts["state"]) == (is_stale, is_stale, state)

    registry.now_ms = now_ms() - 100_000
    registry.register(MASTER, "c1", "broker-a")
    assert_is("silent", is_stale=True)
    registry.give_sign(now_ms())
    assert_is("running", is_stale=False)
    registry.now_ms = now_ms()
    registry.publish()
    assert_is("running", is_stale=False)


def test_folder_without_tables_is_one_message_and_json_where_it_was_asked_for(run, tmp_path, registry):
    registry.root = str(tmp_path / "elsewhere")
    result = run("topicList")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "holds no registry" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    result = run("status --json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["state"], "holds no registry" in found["error"]) == (1, "unknown", True)


def test_status_ends_with_the_status_of_its_state(run, registry):
    for age_ms, shown, exit_code in ((100_000, "nothing was published since", 1), (1_000, "running", 0)):
        registry.now_ms = now_ms() - age_ms
        registry.register(MASTER, "c1", "broker-a")
        result = run("status --no-kafka")
        assert (result.exit_code, shown in result.stdout) == (exit_code, True)
    registry.expire(MASTER)
    assert "0 brokers up, 1 broker name, 1 down" in run("status --no-kafka").stdout


def test_status_counts_as_the_overview_does(run, registry):
    registry.now_ms = now_ms()
    registry.register(MASTER, "c1", "broker-a", topics=("TopicA", "TBW102", "broker-a"))
    registry.register(OTHER, "c2", "broker-b", topics=("TopicB",))
    registry.expire(OTHER)
    found = json.loads(run("status --no-kafka --json").stdout)
    shown = overview(Seen.of(Root(registry.root), RouteReader(registry.root).open(), NamesrvSettings())).counts
    names = ("clusters", "brokerNames", "topics", "brokersDown")
    assert [found[name] for name in names] == [shown.clusters, shown.broker_names, shown.topics, shown.down]
    assert [found[name] for name in names] == [2, 2, 2, 1]


def test_status_shows_the_other_lines_although_the_history_is_damaged(run, registry):
    registry.now_ms = now_ms()
    registry.register(MASTER, "c1", "broker-a")
    registry.register(OTHER, "c1", "broker-b")
    registry.expire(OTHER)
    for file in Path(registry.root, "broker_event").rglob("*.parquet"):
        file.unlink()
    result = run("status --no-kafka")
    assert (result.exit_code, "1 broker up, 1 broker name; who is down is not known: " in result.stdout) == (0, True)


def test_why_as_of_a_moment_tells_what_was_known_then(run, registry):
    then = registry.register(MASTER, "c1", "broker-a").epoch
    registry.expire(MASTER)
    told = run(f"why {MASTER} --as-of {then}")
    assert told.exit_code == 0, told.output
    assert "is alive as broker-a 0" in told.stdout
    assert "silent" not in told.stdout
    assert "is in no route table" in run(f"why {MASTER}").stdout
