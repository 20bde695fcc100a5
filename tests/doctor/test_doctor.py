"""doctor: each fault is one line with what to do, and nothing is left behind."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from namesrv_stream.cli.entry import main
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.kafka.topic import ensure_topic
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tools.doctor import findings
from namesrv_stream.tools.doctor import kafka_checks as doctor_kafka
from namesrv_stream.tools.doctor.kafka_checks import GATEWAY_RIGHTS, JOB_RIGHTS, check_job, check_kafka
from namesrv_stream.tools.doctor.storage_checks import (
    check_certificate,
    check_checkpoint,
    check_contents,
    check_tables,
    check_temp_folder,
    check_writing,
)
from tests.cli.registry import PublishedRegistry
from tests.system.heartbeats import PATIENT


def states(check, **settings):
    """The findings of a check, by the names of the settings in code."""
    return list(findings("check", check, NamesrvSettings(**settings)))


@pytest.fixture
def certificate(tmp_path):
    """Writes a certificate that is valid from and until so many days from now, and returns the settings for it."""

    def write(from_days, until_days):
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "namesrv")])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now + timedelta(days=from_days))
            .not_valid_after(now + timedelta(days=until_days))
            .sign(key, hashes.SHA256())
        )
        cert, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
        cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        encoding = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        key_file.write_bytes(key.private_bytes(*encoding))
        return {"tls_cert_path": str(cert), "tls_key_path": str(key_file)}

    return write


@pytest.mark.parametrize(
    ("from_days", "until_days", "state"), [(-1, 100, "ok"), (-1, 10, "warning"), (-9, -1, "failed"), (1, 9, "failed")]
)
def test_a_certificate_must_be_valid_now_and_for_a_month(certificate, from_days, until_days, state):
    [found] = states(check_certificate, **certificate(from_days, until_days))
    assert found.state == state, found


def test_a_key_of_another_certificate_has_failed(certificate, tmp_path):
    settings = certificate(-1, 100)
    (tmp_path / "cert.pem").rename(tmp_path / "other.pem")
    certificate(-1, 100)
    [found] = states(check_certificate, **settings | {"tls_cert_path": str(tmp_path / "other.pem")})
    assert found.state == "failed"
    assert "tls.server.keyPassword" in found.found


def test_writing_is_tried_and_nothing_is_left(tmp_path):
    root = tmp_path / "not" / "made"
    found = states(check_writing, delta_root=str(root))
    assert ("commits", "ok") in [each[:2] for each in found], found
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_checkpoint_is_tried_and_nothing_is_left(tmp_path, scheme):
    location = f"{scheme}{tmp_path}/not/made"
    assert [each[:2] for each in states(check_checkpoint, checkpoint_location=location)] == [("checkpoint", "ok")]
    assert list(tmp_path.iterdir()) == []


def test_a_native_library_is_loaded_from_the_jobs_temporary_folder_and_nothing_is_left(tmp_path):
    found = states(check_temp_folder, job_temp_folder=str(tmp_path / "not" / "made"))
    assert [each[:2] for each in found] == [("temporary folder", "ok")]
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    names = ("file", "file/below", "link")
    for place in ("/proc/none", *(tmp_path / each for each in names)):  # the first as a mount with noexec
        [found] = states(check_temp_folder, job_temp_folder=str(place))
        assert (found.state, "job.tempFolder" in found.next_step) == ("failed", True)


@pytest.mark.parametrize(("place", "told"), [("{}/file", "it is a file"), ("/proc/none", "")])
def test_a_place_at_which_no_checkpoint_can_be_written_has_failed(tmp_path, place, told):
    (tmp_path / "file").touch()
    [found] = states(check_checkpoint, checkpoint_location=place.format(tmp_path))  # not even root writes to /proc
    assert (found.state, told in found.found, "checkpoint.location" in found.next_step) == ("failed", True, True)


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
    assert (found.state, found.found) == ("not checked", "Kafka does not say what the job does")


def test_order_configurations_that_crash_clients_are_found(tmp_path):
    registry = PublishedRegistry(str(tmp_path / "registry"), 1_700_000_000_000)
    registry.command(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:8;"))
    [found] = states(check_contents, delta_root=registry.root)
    assert (found.check, found.state, "of topic TopicA: ''" in found.found) == ("order configuration", "failed", True)
