"""TLS on the port of plain text: modes, certificates that change, and clients that have to show one."""

import ssl
from datetime import UTC, datetime

import pytest

from namesrv_stream.access.certificates import Certificates
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.launch import BackgroundGateway
from tests.certificates import make_certificate, trusting
from tests.gateway.peer import Peer


@pytest.fixture
def tls(tmp_path, settings):
    make_certificate(tmp_path, "first")
    files = {"tls__server__certPath": str(tmp_path / "cert.pem"), "tls__server__keyPath": str(tmp_path / "key.pem")}
    return lambda **more: BackgroundGateway(settings(**files, **more))


def test_tls_and_plain_text_share_the_port(registry, tls, tmp_path):
    with (
        tls() as running,
        Peer(running.gateway.port, trusting(tmp_path)) as secret,
        Peer(running.gateway.port) as plain,
    ):
        for _ in range(3):
            assert secret.ask(105, topic="TopicA").body == plain.ask(105, topic="TopicA").body
        sent = [secret.send(105, topic="TopicA") for _ in range(2000)]
        assert [secret.receive().opaque for _ in sent] == sent


def is_answered(running, context=None):
    try:
        with Peer(running.gateway.port, context) as peer:
            return peer.ask(105, topic="TopicA").code == 0
    except (ssl.SSLError, ConnectionError):
        return False


@pytest.mark.parametrize(
    ("given", "shown", "is_with_tls", "is_without"),
    [
        ({"mode": "enforcing"}, None, True, False),
        ({"mode": "disabled"}, None, False, True),
        ({"authClient": True}, "known", True, True),
        ({"authClient": True}, "stranger", False, True),
        ({"authClient": True}, None, False, True),
        ({"authClient": False}, "stranger", True, True),
    ],
)
def test_the_mode_and_a_clients_certificate_where_it_counts_decide_who_is_answered(
    registry, tls, tmp_path, given, shown, is_with_tls, is_without
):
    for name in ("known", "stranger"):
        make_certificate(tmp_path, name, f"{name}-")
    client, given = trusting(tmp_path, shown), given | {"trustCertPath": str(tmp_path / "known-cert.pem")}
    with tls(**{f"tls__server__{name}": text for name, text in given.items()}) as running:
        assert (is_answered(running, client), is_answered(running)) == (is_with_tls, is_without)


def test_a_new_certificate_is_taken_and_a_broken_one_is_not(registry, tls, tmp_path):
    with tls() as running, Peer(running.gateway.port, trusting(tmp_path)) as before:
        first = trusting(tmp_path)
        make_certificate(tmp_path, "second")
        second = trusting(tmp_path)
        assert is_answered(running, second)
        with pytest.raises(ssl.SSLError):
            Peer(running.gateway.port, first)
        (tmp_path / "cert.pem").write_text("no certificate")
        assert is_answered(running, second)
        assert before.ask(105, topic="TopicA").code == 0


@pytest.mark.parametrize("until_days", [1, 20, -1], ids=["soon", "later", "it has ended"])
def test_the_end_of_the_certificate_is_known_and_one_that_is_not_valid_ends_now(settings, tmp_path, until_days):
    make_certificate(tmp_path, "first", until_days=until_days)
    files = {"tls__server__certPath": str(tmp_path / "cert.pem"), "tls__server__keyPath": str(tmp_path / "key.pem")}
    ends_s, now_s = Certificates(settings(**files)).ends_s, datetime.now(UTC).timestamp()
    assert ends_s - now_s == pytest.approx(max(until_days, 0) * 86_400, abs=600)
    assert Certificates(settings()).ends_s == 0


def test_auth_client_without_certificates_to_check_against_is_refused_at_start(registry, tls):
    with pytest.raises(NamesrvError, match="trustCertPath"), tls(tls__server__authClient=True):
        pass
