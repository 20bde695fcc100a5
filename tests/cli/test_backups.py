"""export, import, backup and restore on real tables: what is put back, what the history says, and who is kept out."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile

import pytest

from namesrv_stream.errors import TermLostError
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    DeleteTopic,
    PutKvConfig,
    Scan,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from tests.damages import cut
from tests.registry import tables


@pytest.fixture
def good(registry):
    """A registry with something in each table that an operator or a broker fills; returns its epoch."""
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("TopicA", "Orders"), publish=False)
    registry.register("10.0.0.2:10911", "c1", "broker-b", filter_server_list=["10.0.0.9:1"], publish=False)
    registry.command(UpdateNamesrvConfig(properties={"orderMessageEnable": "true"}), publish=False)
    return registry.command(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:8")).epoch


def spoil(registry):
    """Lose a broker, a topic, a value and the right to write, and gain a broker."""
    registry.expire("10.0.0.2:10911", publish=False)
    registry.command(DeleteTopic(topic="Orders"), publish=False)
    registry.command(WipeWritePerm(broker_name="broker-a"), publish=False)
    registry.command(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="wrong"), publish=False)
    registry.register("10.0.0.3:10911", "c2", "broker-c", topics=("New",))


def newest(root):
    return Registry(Root(root)).newest().snapshot


def test_restore_makes_all_tables_as_they_were_at_this_place_of_the_log_and_the_history_has_it(run, registry, good):
    wanted = tables(registry.root)
    spoil(registry)
    before = newest(registry.root)
    assert tables(registry.root) != wanted
    result = run(f"restore {good} --take-over --as ann")
    assert result.exit_code == 0, result.output
    assert tables(registry.root) == wanted
    after = newest(registry.root)
    assert after.epoch == good + 3  # what was spoilt, the claim, the restore
    assert (after.offsets, after.event_time, after.kind) == (before.offsets, before.event_time, "STOP")
    assert (after.clock_millis, after.last_tick_append) == (before.clock_millis, None)
    assert_told(run, good)
    assert run(f"restore {good}").exit_code == 0, "a job that has stopped in order needs neither take-over nor Kafka"


def test_a_restored_lease_and_its_end_have_the_last_heartbeat_that_the_history_knows(run, registry, good):
    registry.now_ms += 60_000
    registry.command(BrokerHeartbeat(broker_addr="10.0.0.2:10911"), publish=False)
    heard_ms, registry.now_ms = registry.now_ms, registry.now_ms + 120_001
    registry.rules.expire("10.0.0.2:10911", registry.now_ms)
    ended = registry.publish().epoch
    for epoch in (good, ended):
        assert run(f"restore {epoch} --take-over --yes").exit_code == 0
        leases = [*Registry(Root(registry.root)).newest().routes.live.values()]
        assert [each.last_update_timestamp for each in leases if each.broker_addr == "10.0.0.2:10911"] in (
            [heard_ms],
            [],
        )
    last = [each for each in json.loads(run("history --json").stdout) if each.get("brokerAddr") == "10.0.0.2:10911"][-1]
    assert (last["type"], last["lastHeardAt"]) == ("UNREGISTERED", iso_text(heard_ms))


def assert_told(run, good):
    """The history has who asked for the restore and what came of it."""
    events = [e for e in json.loads(run("history --json").stdout) if e["epoch"] == good + 3]
    assert {each["requestedBy"] for each in events} == {"ann"}
    assert events[0]["type"] == "RESTORE"
    ends = {(e["type"], e.get("brokerAddr")) for e in events}
    assert {("REGISTERED", "10.0.0.2:10911"), ("UNREGISTERED", "10.0.0.3:10911")} <= ends
    assert "was removed by the restore of ann" in run("why broker-c").stdout
    rows = json.dumps(events[0])
    assert '"value": "wrong"' in rows, "before"
    assert '"value": "broker-a:8"' in rows, "after"


def test_restored_leases_last_their_timeout_from_the_next_jobs_first_tick(run, registry, good):
    spoil(registry)
    run(f"restore {good} --take-over")
    rules = registry.next_job().rules
    first_tick_ms, lease_ms = registry.now_ms + 600_000, 120_000

    def ended_by(tick_ms):
        rules.apply(Scan(), LogPosition(tick_ms, 0, 100))
        return [event.broker_addr for event in rules.take_changes().events if event.type == "EXPIRED"]

    until_the_end = [ended_by(first_tick_ms + 1000 * second) for second in range(lease_ms // 1000 + 1)]
    assert until_the_end == [[]] * len(until_the_end)
    assert sorted(ended_by(first_tick_ms + lease_ms + 1000)) == ["10.0.0.1:10911", "10.0.0.2:10911"]


def test_a_restore_needs_kafkas_word_that_no_job_is_active_and_a_job_taken_over_can_publish_nothing(
    run, registry, closed_port
):
    good = registry.register("10.0.0.1:10911", "c1", "broker-a").epoch
    refused = run(f"restore {good}", **{"kafka.bootstrap.servers": f"127.0.0.1:{closed_port}"})
    assert refused.exit_code == 1
    assert "cannot find out from Kafka whether a job is active" in refused.stderr
    assert "--take-over" in refused.stderr
    assert newest(registry.root).epoch == good
    assert run(f"restore {good} --take-over").exit_code == 0
    with pytest.raises(TermLostError):
        registry.register("10.0.0.4:10911", "c1", "broker-d")


def test_import_makes_the_registry_of_an_epoch_or_a_time_elsewhere_with_its_place_in_the_log(
    run, registry, good, tmp_path
):
    file, other = tmp_path / "registry.zip", tmp_path / "other"
    wanted, place, good_ms = tables(registry.root), newest(registry.root), registry.now_ms
    registry.now_ms += 1000
    spoil(registry)
    for moment in (good, iso_text(good_ms)):
        shutil.rmtree(other, ignore_errors=True)
        assert run(f"export {file} --as-of {moment}").exit_code == 0
        assert run(f"import {file} --root {other}").exit_code == 0
        assert (tables(str(other)), newest(str(other)).offsets) == (wanted, place.offsets)
    refused = run(f"import {file}")
    assert (refused.exit_code, "has a registry already" in refused.stderr) == (1, True)
    types = [each["type"] for each in json.loads(run(f"history --json --root {other}").stdout)]
    assert types[0] == "IMPORT"
    assert types.count("REGISTERED") == 2


def test_backup_keeps_the_newest_files_and_restore_reads_one_of_them(run, registry, good, tmp_path):
    wanted = tables(registry.root)
    assert run(f"backup {tmp_path / 'kept'}").exit_code == 0
    (tmp_path / "kept" / "epoch-1.zip").touch()
    (tmp_path / "kept" / "notes.zip").touch()
    spoil(registry)
    assert run(f"backup {tmp_path / 'kept'} --keep 2").exit_code == 0
    assert sorted(file.name for file in (tmp_path / "kept").iterdir()) == [
        f"epoch-{good}.zip",
        f"epoch-{good + 1}.zip",
        "notes.zip",
    ]
    assert run(f"restore {good} --from {tmp_path / 'kept'} --take-over").exit_code == 0
    assert tables(registry.root) == wanted


def flip(file):
    data = file.read_bytes()
    file.write_bytes(data[:-4000] + bytes([data[-4000] ^ 255]) + data[-3999:])


def make_newer(file):
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["manifest.json"] = parts["manifest.json"].replace(b'"format": 1', b'"format": 2')
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)


@pytest.mark.parametrize("damage", [cut, flip, lambda file: file.write_bytes(b"no archive"), os.remove, make_newer])
def test_a_damaged_file_is_one_message_and_changes_nothing(run, good, tmp_path, damage):
    file, other = tmp_path / "registry.zip", tmp_path / "other"
    run(f"export {file}")
    damage(file)
    result = run(f"import {file} --root {other}")
    assert result.exit_code == 1
    assert str(file) in result.stderr
    assert "unexpected" not in result.stderr
    assert not other.exists()


def test_a_folder_that_cannot_be_written_is_one_message(run, registry, good, tmp_path):
    (tmp_path / "file").touch()
    assert run(f"export {tmp_path / 'missing' / 'a.zip'}").exit_code == 1
    assert run(f"backup {tmp_path / 'file' / 'folder'}").exit_code == 2


SLOW_BACKUP = """
import time
from namesrv_stream.tools import backup_file as file
from namesrv_stream.cli import main

def write_slowly(_table):
    print("writing", flush=True)
    while True:  # a signal just before a sleep does not end that one
        time.sleep(0.1)

file._parquet = write_slowly
main()
"""


@pytest.mark.parametrize("command", ["backup {}", pytest.param("export {}/file.zip", marks=pytest.mark.full)])
def test_sigterm_ends_a_backup_and_leaves_no_half_file(registry, good, tmp_path, command):
    folder = tmp_path / "backups"
    folder.mkdir()
    line = [sys.executable, "-c", SLOW_BACKUP, *command.format(folder).split(), "--root", registry.root]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        assert list(folder.iterdir()) != []
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert (list(folder.iterdir()), said) == ([], "")
