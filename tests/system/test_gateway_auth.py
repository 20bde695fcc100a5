"""Real RocketMQ programs and a gateway with auth.mode=writes: who signs may write, and is named in the history."""

import os
import shutil
from pathlib import Path

import pytest

from real_rocketmq.servers import Release, broker, mqadmin
from tests.certificates import make_certificate
from tests.java_client import BODIES, Keys, java_client
from tests.system.gateway_stack import registered, routed, running_stack, until

pytestmark = [pytest.mark.system, pytest.mark.full]

ADMIN, READER, BROKER_A = (Keys(name, "12345678") for name in ("ann", "reader", "broker-a"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("auth")
    shutil.copy(Path(__file__).with_name("users.toml"), made)
    (made / "users.toml").chmod(0o600)
    make_certificate(made, "gateway", "gateway-")
    make_certificate(made, "broker", "broker-")
    return made


@pytest.fixture(scope="module")
def stack(kafka, spark, folder):
    settings = {
        "auth.mode": "writes",
        "auth.usersPath": str(folder / "users.toml"),
        "tls.server.certPath": str(folder / "gateway-cert.pem"),
        "tls.server.keyPath": str(folder / "gateway-key.pem"),
        "tls.server.trustCertPath": str(folder / "broker-cert.pem"),
    }
    with running_stack(kafka, spark, folder, **settings) as running:
        yield running


def credentials(keys):
    """Settings of a 5.4.0 broker, which does not start with credentials and no provider of users."""
    return {
        "innerClientAuthenticationCredentials": f'{{"accessKey":"{keys.access_key}","secretKey":"{keys.secret_key}"}}',
        "authenticationMetadataProvider": "org.apache.rocketmq.auth.authentication.provider"
        ".LocalAuthenticationMetadataProvider",
    }


@pytest.fixture(scope="module")
def signing(stack, tmp_path_factory):
    """A 5.4.0 broker with credentials, which speaks each second besides (322)."""
    acting = {"enableSlaveActingMaster": "true"} | credentials(BROKER_A)
    with broker(tmp_path_factory.mktemp("signing"), stack.namesrv_addr, "broker-a", **acting) as running:
        registered(stack, "broker-a", {"0": running.address})
        yield running
        running.kill()


@pytest.fixture
def admin(stack, tmp_path):
    def run(*arguments, release=Release.V5, keys=None):
        return mqadmin(tmp_path / release.value, stack.namesrv_addr, *arguments, release=release, keys=keys)

    return run


def counted(stack, metric, **labels):
    """Return the value of a metric of the gateway."""
    return stack.gateway.gateway.metrics.registry.get_sample_value(metric, labels) or 0


def requesters(stack, name, type_):
    return {each.requested_by.partition("@")[0] for each in stack.events_of(name) if each.type == type_}


def test_a_broker_with_credentials_lives_and_serves_a_client_that_signs(stack, signing, admin, tmp_path):
    """Its lease is of 10 s: it outlives that, and is registered once."""
    assert "success" in admin("updateTopic", "-b", signing.address, "-t", "Signed")
    routed(stack, "Signed")
    with java_client(tmp_path, stack.namesrv_addr, keys=READER) as client:
        assert client.carried("Signed", BODIES) == BODIES
    until(lambda: counted(stack, "namesrv_requests_total", code="QUERY_DATA_VERSION", result="SUCCESS") >= 15)
    assert stack.addresses("broker-a") == {"0": signing.address}
    assert [each.type for each in stack.events_of("broker-a")].count("REGISTERED") == 1
    for code in ("QUERY_DATA_VERSION", "REGISTER_BROKER"):
        assert not counted(stack, "namesrv_not_allowed_total", code=code, user="broker-a", effect="refused")
    assert requesters(stack, "broker-a", "REGISTERED") == {"broker-a"}
    wiped = admin("wipeWritePerm", "-b", "broker-a", keys=BROKER_A)
    assert "WIPE_WRITE_PERM_OF_BROKER needs the admin role: user broker-a has the broker role" in wiped, wiped
    assert "OK" in admin("wipeWritePerm", "-b", "broker-a", keys=ADMIN)
    until(lambda: requesters(stack, "broker-a", "WIPE_WRITE_PERM_OF_BROKER") == {"ann"})


def test_a_broker_of_the_line_before_registers_by_its_certificate(stack, folder, tmp_path, monkeypatch):
    tls = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.server.mode": "disabled",
        "tls.client.authServer": "false",
        "tls.client.certPath": folder / "broker-cert.pem",
        "tls.client.keyPath": folder / "broker-key.pem",
    }
    options = " ".join(f"-D{key}={value}" for key, value in tls.items())
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"{os.environ['JDK_JAVA_OPTIONS']} {options}")
    with broker(tmp_path, stack.namesrv_addr, "broker-tls", release=Release.V4) as old:
        registered(stack, "broker-tls", {"0": old.address})
    registered(stack, "broker-tls", {})
    assert requesters(stack, "broker-tls", "REGISTERED") == {"by-certificate"}
