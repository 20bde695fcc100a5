"""Real RocketMQ programs and a gateway with auth.mode=writes: who signs may write, and is named in the history."""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from namesrv_stream.gateway.background_gateway import BackgroundGateway
from namesrv_stream.tools.local.rocketmq_servers import LocalServer, Release, broker, mqadmin
from namesrv_stream.wire.codes import RequestCode
from tests.gateway.peer import Peer
from tests.gateway.test_authorization import MODES, SECRET, TABLE, ask
from tests.gateway.test_tls import make_certificate
from tests.java_client import Keys, java_client
from tests.system.gateway_stack import eventually, running_stack
from tests.system.test_gateway_rocketmq import events_of, registered, routed

pytestmark = [pytest.mark.system, pytest.mark.full]

ADMIN, READER, BROKER_A, BROKER_B = (Keys(name, SECRET.decode()) for name in ("ann", "reader", "broker-a", "broker-b"))
SENDERS = {"anonymous": None, "broker, own name": BROKER_A, "admin": ADMIN}
COMMANDS = {
    100: "updateKvConfig -s N -k K -v V",
    102: "deleteKvConfig -s N -k K",
    205: "wipeWritePerm -b broker-a",
    216: "deleteTopic -c RealCluster -t NoSuchTopic",
    318: "updateNamesrvConfig -k orderMessageEnable -v false",
    319: "getNamesrvConfig",
    327: "addWritePerm -b broker-a",
}
LAST_MODE = {(code, sender): last for code, sender, last in TABLE}
SIGNING_USERS = f"""
[[user]]
name = "ann"
role = "admin"
accessKey = "ann"
secretKey = "{SECRET.decode()}"

[[user]]
name = "reader"
role = "reader"
accessKey = "reader"
secretKey = "{SECRET.decode()}"

[[user]]
name = "broker-a"
role = "broker"
accessKey = "broker-a"
secretKey = "{SECRET.decode()}"
clusters = ["RealCluster"]
names = ["broker-a"]
addresses = ["127.0.0.1:*"]

[[user]]
name = "broker-b"
role = "broker"
accessKey = "broker-b"
secretKey = "{SECRET.decode()}"
clusters = ["RealCluster"]
names = ["broker-b"]
addresses = ["127.0.0.1:*"]
"""
USERS = f"""{SIGNING_USERS}
[[user]]
name = "by-range"
role = "broker"
networks = ["127.0.0.1/32"]
clusters = ["RealCluster"]
names = ["broker-old"]
addresses = ["127.0.0.1:*"]

[[user]]
name = "by-certificate"
role = "broker"
certificates = ["DNS:localhost"]
clusters = ["RealCluster"]
names = ["broker-tls"]
addresses = ["127.0.0.1:*"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("auth")
    for name, users in (("users.toml", USERS), ("signing-users.toml", SIGNING_USERS)):
        (made / name).touch(0o600)
        (made / name).write_text(users)
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


def refused(running, code, user=None):
    """Return the number of requests of this name that a gateway has refused so far."""
    metrics = running.gateway.metrics.registry
    labels = {"code": code, "user": user or "unknown", "effect": "refused"}
    return metrics.get_sample_value("namesrv_not_allowed_total", labels) or 0


@contextmanager
def guarded_gateway(stack, mode, **more):
    """Another gateway of the same registry, with its way to Kafka, in another mode."""
    with BackgroundGateway(stack.settings.model_copy(update={"auth_mode": mode, **more})) as running:

        @eventually
        def has_its_way_to_kafka():
            with Peer(running.gateway.port) as peer:
                assert ask(peer, 102, "ann", namespace="start", key="start").code == 0

        has_its_way_to_kafka()
        yield running


def requesters(stack, name, type_):
    return {each.requested_by.partition("@")[0] for each in events_of(stack, name) if each.type == type_}


@pytest.mark.parametrize("release", [Release.V5, Release.V4])
def test_mqadmin_writes_with_the_keys_of_an_admin_alone(stack, admin, release):
    put = ("updateKvConfig", "-s", release.value, "-k", "K", "-v", "V")
    for keys in (None, READER, BROKER_A, Keys("ann", "not her secret")):
        said = admin(*put, release=release, keys=keys)
        assert "CODE: 16" in said and "PUT_KV_CONFIG needs the admin role" in said, said
    assert stack.ask(101, namespace=release.value, key="K").code == 22
    assert "success" in admin(*put, release=release, keys=ADMIN)

    @eventually
    def put_is_seen():
        assert stack.ask(101, namespace=release.value, key="K").ext_fields == {"value": "V"}

    put_is_seen()


@pytest.mark.parametrize("mode", MODES)
def test_each_command_of_mqadmin_is_admitted_as_in_the_table(stack, signing, tmp_path, mode):
    with guarded_gateway(stack, mode) as gateway:
        for (code, command), (sender, keys) in itertools.product(COMMANDS.items(), SENDERS.items()):
            said = mqadmin(tmp_path, gateway.address, *command.split(), keys=keys)
            is_admitted = MODES.index(mode) <= MODES.index(LAST_MODE[code, sender])
            assert ("needs the admin role" not in said) == is_admitted, (command, sender, said)


REAL_BROKERS = {
    "anonymous": ("broker-nobody", None),
    "broker, own name": ("broker-b", BROKER_B),
    "broker, foreign name": ("broker-foreign", BROKER_A),
}
"""Sender of the table -> the name and the keys of a real broker."""

OF_BROKERS = (RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.QUERY_DATA_VERSION)
"""The requests of a 5.4.0 broker without a controller."""


def test_each_request_of_a_real_broker_is_admitted_as_in_the_table(stack, folder, tmp_path):
    """Each broker names four gateways, one in each mode. It registers, speaks each second, and unregisters."""
    users = {"auth_users_path": str(folder / "signing-users.toml")}
    with ExitStack() as gateways:
        of_mode = {mode: gateways.enter_context(guarded_gateway(stack, mode, **users)) for mode in MODES}
        with real_brokers(tmp_path, ";".join(gateway.address for gateway in of_mode.values())):

            @eventually
            def all_have_registered_and_spoken():
                """The strictest gateway tells them apart; each request goes to all four."""
                for code in (RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION):
                    assert refused(of_mode["writes"], code.name) and refused(of_mode["writes"], code.name, "broker-a")
                    assert all(answered(gateway, code, "SUCCESS") for gateway in of_mode.values())

            all_have_registered_and_spoken()
        for mode, gateway in of_mode.items():
            for code, (sender, (_, keys)) in itertools.product(OF_BROKERS, REAL_BROKERS.items()):
                is_admitted = MODES.index(mode) <= MODES.index(LAST_MODE[code, sender])
                refusals = refused(gateway, code.name, keys and keys.access_key)
                assert (refusals == 0) == is_admitted, (mode, code, sender)
            ends = [answered(gateway, RequestCode.UNREGISTER_BROKER, each) for each in ("SUCCESS", "NO_PERMISSION")]
            assert ends == ([1, 2] if mode == "writes" else [3, 0]), "each stopped in order"


@contextmanager
def real_brokers(folder, namesrv_addr):
    """The brokers of REAL_BROKERS, started and stopped at the same time."""
    own = {"enableSlaveActingMaster": "true"}
    made = [
        broker(folder / name, namesrv_addr, name, **own | (credentials(keys) if keys else {}))
        for name, keys in REAL_BROKERS.values()
    ]
    with ThreadPoolExecutor() as threads, ExitStack() as running:
        for each in made:
            running.callback(each.kill)
        list(threads.map(LocalServer.start, made))
        yield
        list(threads.map(LocalServer.stop, made))


def answered(running, code, result):
    """Return the number of requests of this code that a gateway has answered with this result so far."""
    labels = {"code": code.name, "result": result}
    return running.gateway.metrics.registry.get_sample_value("namesrv_requests_total", labels) or 0


def test_a_broker_that_cannot_sign_registers_until_brokers_are_asked(stack, tmp_path):
    with (
        guarded_gateway(stack, "operators") as gateway,
        broker(tmp_path, gateway.address, "broker-unsigned", release=Release.V4) as unsigned,
    ):
        registered(stack, "broker-unsigned", {"0": unsigned.address})
        unsigned.kill()
    registered(stack, "broker-unsigned", {})


def test_mqadmin_in_a_zone_adds_it_after_it_has_signed(admin, monkeypatch):
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Drocketmq.zone=z1 -Drocketmq.zone.mode=true")
    assert "success" in admin("updateKvConfig", "-s", "Zone", "-k", "K", "-v", "V", keys=ADMIN)


def test_a_broker_with_credentials_lives_and_serves_a_client_that_signs(stack, signing, admin, tmp_path):
    assert "success" in admin("updateTopic", "-b", signing.address, "-t", "Signed")
    routed(stack, "Signed")
    bodies = [f"message {number}" for number in range(20)]
    with java_client(tmp_path, stack.namesrv_addr, keys=READER) as client:
        client.send("Signed", bodies)
        assert sorted(client.receive("Signed", len(bodies))) == sorted(bodies)
    assert (
        refused(stack.gateway, "QUERY_DATA_VERSION", "broker-a")
        == refused(stack.gateway, "REGISTER_BROKER", "broker-a")
        == 0
    )
    assert requesters(stack, "broker-a", "REGISTERED") == {"broker-a"}
    wiped = admin("wipeWritePerm", "-b", "broker-a", keys=BROKER_A)
    assert "WIPE_WRITE_PERM_OF_BROKER needs the admin role: user broker-a has the broker role" in wiped, wiped
    assert "OK" in admin("wipeWritePerm", "-b", "broker-a", keys=ADMIN)

    @eventually
    def wiped_by_ann():
        # other tests of this file have wiped before, in other modes
        wipes = [each for each in events_of(stack, "broker-a") if each.type == "WIPE_WRITE_PERM_OF_BROKER"]
        assert wipes[-1].requested_by.partition("@")[0] == "ann"

    wiped_by_ann()


def test_a_broker_lives_by_its_heartbeats(stack, signing):
    """Its lease is of 10 s: it has outlived that, and was registered once."""

    def heard():
        return stack.gateway.gateway.metrics.registry.get_sample_value(
            "namesrv_requests_total", {"code": "QUERY_DATA_VERSION", "result": "SUCCESS"}
        )

    @eventually
    def has_spoken_fifteen_times():
        assert heard() >= 15

    has_spoken_fifteen_times()
    assert stack.addresses("broker-a") == {"0": signing.address}
    assert [each.type for each in events_of(stack, "broker-a")].count("REGISTERED") == 1


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("broker-x", credentials(BROKER_A)),
        ("broker-a", credentials(Keys("broker-a", "not its secret"))),
    ],
)
def test_a_broker_that_may_not_takes_no_route(stack, signing, tmp_path, name, settings):
    before = {each: stack.addresses(each) for each in ("broker-a", "broker-x")}
    refusals = sum(refused(stack.gateway, "REGISTER_BROKER", user) for user in (None, "broker-a", "by-range"))
    with broker(tmp_path, stack.namesrv_addr, name, **settings) as stranger:

        @eventually
        def is_refused():
            assert (
                sum(refused(stack.gateway, "REGISTER_BROKER", user) for user in (None, "broker-a", "by-range"))
                > refusals
            )

        is_refused()
        stranger.kill()
    assert {each: stack.addresses(each) for each in before} == before


def test_a_broker_of_the_line_before_registers_by_its_address(stack, tmp_path):
    with broker(tmp_path, stack.namesrv_addr, "broker-old", release=Release.V4) as old:
        registered(stack, "broker-old", {"0": old.address})
    registered(stack, "broker-old", {})
    assert requesters(stack, "broker-old", "REGISTERED") == {"by-range"}


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
