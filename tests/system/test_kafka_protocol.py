"""A listener of Kafka that is there and speaks another security protocol is told from one that is not there."""

import socket
import ssl
import threading

import pytest

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import KafkaUnreachableError
from namesrv_stream.kafka.protocol import other_protocol
from namesrv_stream.kafka.topic import wait_for_kafka
from namesrv_stream.tools.doctor.finding import findings
from namesrv_stream.tools.doctor.kafka_checks import check_kafka
from namesrv_stream.tools.local.ports import HOST, free_ports
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


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL", "SSL"])
def test_a_client_of_another_protocol_at_a_plaintext_port_is_told_so_by_doctor_too(kafka, protocol):
    of_client = settings(kafka.bootstrap_servers, protocol)
    with pytest.raises(KafkaUnreachableError, match=f"answers by PLAINTEXT, and .*security.protocol={protocol}"):
        wait_for_kafka({"bootstrap_timeout_ms": 3_000} | kafka_client_arguments(of_client), limit_s=0)
    if protocol == "SASL_PLAINTEXT":
        [found] = findings("Kafka", lambda each: check_kafka(each, set()), of_client)
        assert (found.state, "answers by PLAINTEXT" in found.found) == ("failed", True)


def test_the_right_protocol_is_nothing_to_speak_of(kafka):
    assert other_protocol(kafka.bootstrap_servers, "PLAINTEXT") is None


def test_a_plain_client_at_a_tls_port_is_told_so(tmp_path):
    make_certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    def serve(listener):
        for _ in range(2):
            connection, _ = listener.accept()
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        assert "SSL" in other_protocol(f"{HOST}:{listener.getsockname()[1]}", "PLAINTEXT")
        thread.join()


def test_silence_stays_silence():
    servers = f"{HOST}:{free_ports(1)}"
    with pytest.raises(KafkaUnreachableError, match="does not answer"):
        wait_for_kafka({"bootstrap_timeout_ms": 1_000, "bootstrap_servers": servers}, limit_s=0)
