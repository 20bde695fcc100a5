"""doctor: each fault is one line with what to do, and nothing is left behind."""

import json
import socket
from functools import partial

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.kafka.topic import ensure_topic
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tools.doctor import findings
from namesrv_stream.tools.doctor import kafka_checks as doctor_kafka
from namesrv_stream.tools.doctor.broker_checks import check_configuration, check_connections
from namesrv_stream.tools.doctor.kafka_checks import GATEWAY_RIGHTS, JOB_RIGHTS, check_job, check_kafka
from namesrv_stream.tools.doctor.storage_checks import (
    check_certificate,
    check_checkpoint,
    check_contents,
    check_tables,
    check_temp_folder,
    check_writing,
)
from tests.certificates import make_certificate
from tests.clock import now_ms
from tests.registry import PublishedRegistry
from tests.system.heartbeats import PATIENT


def states(check, **settings):
    """The findings of a check, by the names of the settings in code."""
    return list(findings("check", check, NamesrvSettings(**settings)))


@pytest.mark.parametrize(
    ("from_days", "until_days", "state"), [(-1, 100, "ok"), (-1, 10, "warning"), (-9, -1, "failed"), (1, 9, "failed")]
)
def test_a_certificate_must_be_valid_now_and_for_a_month(tmp_path, from_days, until_days, state):
    make_certificate(tmp_path, "namesrv", from_days=from_days, until_days=until_days)
    files = {"tls_cert_path": str(tmp_path / "cert.pem"), "tls_key_path": str(tmp_path / "key.pem")}
    [found] = states(check_certificate, **files)
    assert found.state == state, found


def test_a_key_of_another_certificate_has_failed(tmp_path):
    for file in ("", "other-"):
        make_certificate(tmp_path, "namesrv", file, until_days=100)
    files = {"tls_cert_path": str(tmp_path / "other-cert.pem"), "tls_key_path": str(tmp_path / "key.pem")}
    [found] = states(check_certificate, **files)
    assert found.state == "failed"
    assert "tls.server.keyPassword" in found.found


@pytest.mark.parametrize(
    ("check", "setting", "scheme", "named"),
    [
        (check_writing, "delta_root", "", "commits"),
        (check_checkpoint, "checkpoint_location", "", "checkpoint"),
        (check_checkpoint, "checkpoint_location", "file://", "checkpoint"),
        (check_temp_folder, "job_temp_folder", "", "temporary folder"),
    ],
)
def test_a_place_is_tried_and_nothing_is_left(tmp_path, check, setting, scheme, named):
    *room, found = states(check, **{setting: f"{scheme}{tmp_path}/not/made"})
    assert (found.check, found.state, len(room)) == (named, "ok", check is check_writing)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "told"), [("/proc/none", ""), ("{}/file", "it is a file"), ("{}/file/below", ""), ("{}/link", "")]
)  # the first as a mount with noexec
@pytest.mark.parametrize(
    ("check", "setting", "key"),
    [
        (check_temp_folder, "job_temp_folder", "job.tempFolder"),
        (check_checkpoint, "checkpoint_location", "checkpoint.location"),
    ],
)
def test_a_place_that_cannot_be_written_has_failed(tmp_path, check, setting, key, place, told):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    [found] = states(check, **{setting: place.format(tmp_path)})  # not even root writes to /proc
    assert (found.state, told in found.found, key in found.next_step) == ("failed", True, True)


def test_tables_that_are_not_there_are_no_failure(tmp_path):
    assert [each.state for each in states(check_tables, delta_root=str(tmp_path))] == ["warning"]


@pytest.mark.usefixtures("quickly_away")
def test_kafka_that_is_away_ends_the_command_with_1_and_the_other_lines_stand(tmp_path, nobody):
    away = f"kafka.bootstrap.servers={nobody}"
    result = CliRunner().invoke(main, ["doctor", "--role", "gateway", "--json", "--root", str(tmp_path), "--set", away])
    assert result.exit_code == 1
    found = {each["check"]: each["state"] for each in json.loads(result.stdout)}
    assert found.pop("Kafka") == "failed"
    assert found.pop("tables") == "warning"
    assert found == dict.fromkeys(("job", "certificate"), "not checked")


def test_a_host_whose_name_does_not_resolve_is_named():
    servers = "no-such-host.invalid:9092,neither-this.invalid:9093"
    [found] = states(partial(check_kafka, rights=JOB_RIGHTS), kafka_bootstrap_servers=servers)
    assert found.state == "failed"
    assert all(f"resolve '{server}'" in found.found for server in servers.split(","))


def test_a_topic_as_the_job_makes_it_is_right(kafka, topic, monkeypatch):
    monkeypatch.setattr(doctor_kafka, "_ANSWER_LIMIT_S", 60.0)
    arguments = {"kafka_bootstrap_servers": kafka.bootstrap_servers, "kafka_topic": topic}
    check = partial(check_kafka, rights=JOB_RIGHTS | GATEWAY_RIGHTS, is_candidate=True)
    found = [(each.check, each.state) for each in states(check, **arguments)]
    assert found == [("Kafka", "ok"), ("election", "ok"), ("topic", "warning")]
    ensure_topic(PATIENT | {"bootstrap.servers": kafka.bootstrap_servers}, topic)
    found = states(check, **arguments)
    expected = [("Kafka", "ok"), ("election", "ok"), ("topic", "ok"), ("rights", "ok")]
    assert [(each.check, each.state) for each in found] == expected, found


def test_a_job_is_not_checked_while_kafka_is_away(tmp_path, nobody):
    registry = PublishedRegistry(str(tmp_path / "registry"), 1_700_000_000_000)
    registry.register("10.0.0.1:10911", "c1", "broker-a")
    [found] = states(check_job, kafka_bootstrap_servers=nobody, delta_root=registry.root)
    assert (found.state, found.found) == ("not checked", "the state of the job cannot be read from Kafka")


def test_order_configurations_that_crash_clients_are_found(tmp_path):
    registry = PublishedRegistry(str(tmp_path / "registry"), 1_700_000_000_000)
    registry.command(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:8;"))
    [found] = states(check_contents, delta_root=registry.root)
    assert (found.check, found.state, "topic TopicA: ''" in found.found) == ("order configuration", "failed", True)


def test_each_registered_broker_is_connected_to_and_what_cannot_be_is_named(tmp_path, closed_port_of_nobody):
    registry = PublishedRegistry(str(tmp_path), now_ms())
    with socket.create_server(("127.0.0.1", 0)) as server:
        registry.register(f"127.0.0.1:{server.getsockname()[1]}", "c1", "broker-a")
        registry.register(f"127.0.0.1:{closed_port_of_nobody}", "c1", "broker-b")
        broken, all_of_them = states(check_connections, delta_root=registry.root)
    assert (broken.state, all_of_them.state) == ("failed", "failed")
    assert f"cannot connect to broker-b master (127.0.0.1:{closed_port_of_nobody}): connection refused" in broken.found
    assert all_of_them.found.startswith("this machine can connect to 1 of 2 brokers (in ")


def test_an_identity_that_two_brokers_claim_and_an_address_of_no_use_are_named(tmp_path):
    registry = PublishedRegistry(str(tmp_path), now_ms())
    registry.register("127.0.0.1:10911", "c1", "broker-b", requested_by="@10.0.0.5:4711")
    for number in (1, 2, 1, 2, 1):
        registry.register(f"10.0.0.{number}:10911", "c1", "broker-a")
    claimed, in_vain = states(check_configuration, delta_root=registry.root)
    assert claimed.found == "broker-a master is claimed in turn by 10.0.0.1:10911 and 10.0.0.2:10911"
    assert in_vain.found == "broker-b master announces 127.0.0.1:10911 and connects from 10.0.0.5:4711: set brokerIP1"
    assert {claimed.state, in_vain.state} == {"warning"}


@pytest.fixture
def closed_port_of_nobody():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize("address", ["null:1", "0.0.0.0:1", "10.0.0.1:99999", f"{'a' * 70}.example.org:1"])
def test_an_address_that_cannot_be_connected_to_is_one_line_and_ends_no_check(tmp_path, address):
    registry = PublishedRegistry(str(tmp_path), now_ms())
    registry.register(address, "c1", "broker-a")
    broken, all_of_them = states(check_connections, delta_root=registry.root)
    assert broken.found.startswith(f"cannot connect to broker-a master ({address}): ")
    assert all_of_them.found.startswith("this machine can connect to 0 of 1 broker")
