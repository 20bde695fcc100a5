"""A listener of Kafka that is there and speaks another security protocol is told from one that is not there."""

import ssl
import threading
import weakref
from contextlib import suppress
from socket import create_server

import pytest

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError
from namesrv_stream.kafka import topic
from namesrv_stream.kafka.topic import wait_for_kafka
from namesrv_stream.tools.doctor import findings
from namesrv_stream.tools.doctor.kafka_checks import check_kafka
from namesrv_stream.tools.local.process import HOST
from tests.gateway.test_tls import make_certificate

pytestmark = pytest.mark.system
SASL = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="joe" password="hunter2";'
)}  # fmt: skip


def settings(servers, protocol):
    return NamesrvSettings.model_validate(
        {"kafka.bootstrap.servers": servers, "kafka.security.protocol": protocol}
        | (SASL if protocol.startswith("SASL") else {})
    )


@pytest.mark.parametrize(
    ("protocol", "kind", "said"),
    [
        ("SASL_PLAINTEXT", KafkaRefusedError, "SASL PLAIN mechanism handshake failed.*kafka.security.protocol"),
        ("SSL", KafkaUnreachableError, "connecting to a PLAINTEXT .*kafka.security.protocol"),
    ],
)
def test_a_client_of_another_protocol_at_a_plaintext_port_is_told_so_by_doctor_too(kafka, protocol, kind, said):
    of_client = settings(kafka.bootstrap_servers, protocol)
    with pytest.raises(kind, match=said):
        wait_for_kafka({"socket.timeout.ms": 8_000} | kafka_client_arguments(of_client), limit_s=0)
    if protocol == "SASL_PLAINTEXT":
        [found] = findings("Kafka", lambda each: check_kafka(each, set()), of_client)
        assert (found.state, "handshake failed" in found.found) == ("failed", True)


def test_a_plain_client_at_a_tls_port_is_told_so(tmp_path):
    make_certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    def serve(listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    continue

    with create_server((HOST, 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        servers = f"{HOST}:{listener.getsockname()[1]}"
        with pytest.raises(KafkaUnreachableError, match=r"connection is closed .*security\.protocol right"):
            wait_for_kafka({"socket.timeout.ms": 8_000, "bootstrap.servers": servers}, limit_s=0)
        listener.shutdown(2)


@pytest.mark.parametrize(
    ("server", "said"),
    [(None, "Connection refused"), ("no.such.host:1", "resolve 'no.such.host:1'")],
    ids=["refused", "unresolved"],
)
def test_silence_is_told_with_its_cause(nobody, server, said):
    with pytest.raises(KafkaUnreachableError, match=f"does not answer .*{said}"):
        wait_for_kafka({"socket.timeout.ms": 5_000, "bootstrap.servers": server or nobody}, limit_s=0)


def test_a_client_that_asked_in_vain_is_closed_by_who_asked(nobody, monkeypatch):
    """In librdkafka's own thread, which may drop the answer last, that would abort the process."""
    clients = []

    class Noting(topic.AdminClient):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            clients.append(weakref.ref(self))

    monkeypatch.setattr(topic, "AdminClient", Noting)
    with suppress(KafkaUnreachableError):
        topic.end_offsets({"socket.timeout.ms": 50, "bootstrap.servers": nobody})
    assert [client() for client in clients] == [None]
