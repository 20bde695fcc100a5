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
from tests.certificates import make_certificate

pytestmark = pytest.mark.system
SASL = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="joe" password="hunter2";'
)}  # fmt: skip


def settings(servers, protocol):
    return NamesrvSettings.model_validate(
        {"kafka.bootstrap.servers": servers, "kafka.security.protocol": protocol}
        | (SASL if protocol.startswith("SASL") else {})
    )


@pytest.fixture
def tls_port(tmp_path):
    """A listener that speaks TLS alone."""
    make_certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    def serve(listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                context.wrap_socket(connection, server_side=True).close()

    with create_server((HOST, 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"{HOST}:{listener.getsockname()[1]}"
        listener.shutdown(2)


@pytest.mark.parametrize(
    ("server", "protocol", "kind", "said"),
    [
        ("kafka", "SASL_PLAINTEXT", KafkaRefusedError, "SASL PLAIN mechanism handshake failed.*security.protocol"),
        ("kafka", "SSL", KafkaUnreachableError, "connecting to a PLAINTEXT .*kafka.security.protocol"),
        ("tls_port", "PLAINTEXT", KafkaUnreachableError, r"connection was closed .*security\.protocol"),
        ("nobody", "PLAINTEXT", KafkaUnreachableError, "cannot reach .*connection refused"),
        ("no.such.host:1", "PLAINTEXT", KafkaUnreachableError, "cannot reach .*resolve 'no.such.host:1'"),
    ],
)
def test_a_client_that_gets_no_answer_of_kafka_is_told_the_cause(request, server, protocol, kind, said):
    servers = server if ":" in server else request.getfixturevalue(server)
    of_client = settings(getattr(servers, "bootstrap_servers", servers), protocol)
    with pytest.raises(kind, match=said):
        wait_for_kafka({"socket.timeout.ms": 8_000} | kafka_client_arguments(of_client), limit_s=0)


def test_doctor_is_told_of_another_protocol_too(kafka):
    of_client = settings(kafka.bootstrap_servers, "SASL_PLAINTEXT")
    [found] = findings("Kafka", lambda each: check_kafka(each, set()), of_client)
    assert (found.state, "handshake failed" in found.found) == ("failed", True)


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
