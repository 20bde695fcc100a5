import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.cli.output import console
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import FORMAT, TABLES
from tests.clock import now_ms
from tests.data import data

REFUSED = data(__file__, "refused.yaml")
MASTER, OTHER = "10.0.0.1:10911", "10.0.0.3:10911"


@pytest.fixture(scope="module")
def made(claimed, tmp_path_factory):
    registry = claimed.copied_to(str(tmp_path_factory.mktemp("cluster") / "registry"))
    registry.register(MASTER, "c1", "broker-a")
    registry.register(OTHER, "c2", "broker-b")
    registry.command(PutKvConfig(namespace="NS", key="known", value="v"))
    return registry


@pytest.fixture
def look(made):
    """Runs the command line on that registry as it is: arguments as in a shell, split at blanks."""
    return lambda line: CliRunner().invoke(main, ["--root", made.root, *line.split()])


def lines(result):
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize(("status", "line", "told"), REFUSED)
def test_a_line_that_cannot_be_is_refused_by_name_before_anything_is_sent(look, closed_port, status, line, told):
    result = look(f"--set kafka.bootstrap.servers=127.0.0.1:{closed_port} {line}")
    assert (result.exit_code, "Traceback" in result.output, result.stdout) == (status, False, "")
    assert told in result.stderr
    assert "Kafka at" not in result.stderr


@pytest.mark.parametrize("asked", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_file_or_a_pipe_gets_plain_columns_also_where_colour_is_asked_for(look, monkeypatch, asked):
    plain = [lines(look(line)) for line in ("clusterList", "history")]
    monkeypatch.setenv(asked, "1")
    assert [lines(look(line))[1:] for line in ("clusterList", "history")] == [each[1:] for each in plain]
    assert not console().is_terminal
    assert not console(stderr=True).is_terminal


def test_times_are_in_utc_or_in_the_zone_of_tz_wherever_the_machine_is(look, machine_in):
    machine_in("America/New_York")
    for command in ("history", "snapshots", "why broker-a", "clusterList"):
        for option, zone in (("", "UTC"), (" --tz Asia/Kolkata", "IST")):
            heading = lines(look(command + option))[0]
            assert re.search(rf"(data as of|published) (\S+ )?\d\d:\d\d:\d\d {zone}", heading), command


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
    statements = lines(look("snapshots --sql --only cluster,broker_dim"))
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


def test_old_snapshot_with_live_brokers_is_warned_of_and_status_ends_with_1_unless_the_jobs_sign_says_that_it_holds(
    run, registry
):
    def assert_is(state, told, *, is_stale):
        facts, shown = json.loads(run("status --no-kafka --json").stdout), run("status --no-kafka")
        assert ("warning" in run("topicList").stderr, facts["stale"], facts["state"]) == (is_stale, is_stale, state)
        assert (shown.exit_code, told in shown.stdout) == (is_stale, True)

    registry.now_ms = now_ms() - 100_000
    registry.register(MASTER, "c1", "broker-a")
    assert_is("silent", "published nothing since", is_stale=True)
    registry.give_sign(now_ms())
    assert_is("running", "Kafka was not asked whether it runs", is_stale=False)
    registry.now_ms = now_ms()
    registry.publish()
    assert_is("running", "Kafka was not asked whether it runs", is_stale=False)


def test_folder_without_tables_is_one_message_and_json_where_it_was_asked_for(run, tmp_path, registry):
    registry.root = str(tmp_path / "elsewhere")
    result = run("topicList")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no registry at" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "there are no tables, and Kafka is unreachable" in run("status").stdout
    result = run("status --json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["state"], "no registry at" in found["error"]) == (1, "unknown", True)


def test_status_shows_the_other_lines_although_the_history_is_damaged(run, registry):
    registry.now_ms = now_ms()
    registry.register(MASTER, "c1", "broker-a")
    registry.register(OTHER, "c1", "broker-b")
    registry.expire(OTHER)
    for file in Path(registry.root, "broker_event").rglob("*.parquet"):
        file.unlink()
    result = run("status --no-kafka")
    up = "1 broker up, 1 broker group; brokers that are down are unknown: "
    assert (result.exit_code, up in result.stdout) == (0, True)


def test_tables_of_a_newer_release_are_left_to_it(run, registry):
    for spec in TABLES.values():
        table = Root(registry.root).open(spec)
        table.alter.set_table_properties({"registry.format": str(FORMAT + 1)}, raise_if_not_exists=False)
    for line in ("why broker-a", "history", "diff 1 2", "snapshots --sql", "brokerList --as-of 1"):
        result = run(line)
        assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
        assert f"has registry format {FORMAT + 1}" in result.stderr
