"""The producer without a Kafka: its options, and what becomes of records that nobody takes."""

import ctypes
import logging
import ssl
from pathlib import Path

import confluent_kafka
import pytest

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError
from namesrv_stream.kafka.producer import RecordProducer
from tests.certificates import make_certificate
from tests.data import data
from tests.waiting import eventually, until

OPTIONS = data(__file__, "cases/client_options.yaml")
INVALID_PRODUCER_EPOCH = 47


class BreakableProducer(RecordProducer):
    """Breaks for good when a test says so, as when Kafka has forgotten what an idempotent producer has sent."""

    def break_for_good(self):
        """Break by librdkafka's own function for tests; the handle stands behind the head of its Python object."""
        (library,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*")
        handle = ctypes.c_void_p.from_address(id(self._producer) + object.__basicsize__)
        test_fatal_error = ctypes.CDLL(str(library)).rd_kafka_test_fatal_error
        test_fatal_error.argtypes = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
        assert test_fatal_error(handle, INVALID_PRODUCER_EPOCH, b"as a test wants it") == 0


def arguments(nobody, options=None):
    given = {f"kafka.{key}": text for key, text in (options or {}).items()}
    return kafka_client_arguments(NamesrvSettings.model_validate({"kafka.bootstrap.servers": nobody} | given))


@pytest.mark.parametrize("options", OPTIONS)
def test_every_setting_that_is_accepted_is_one_of_librdkafka_too(nobody, options):
    RecordProducer(arguments(nobody, options), "topic", 1_000).give_up()


def test_certificates_of_the_settings_are_used(nobody, tmp_path):
    make_certificate(tmp_path, "client")
    both = (tmp_path / "cert.pem").read_text() + (tmp_path / "key.pem").read_text()
    (tmp_path / "both.pem").write_text(both)
    ssl.create_default_context().load_cert_chain(tmp_path / "both.pem")
    files = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "cert.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "both.pem"),
        "ssl.endpoint.identification.algorithm": "",
    }
    given = arguments(nobody, files)
    RecordProducer(given, "topic", 1_000).give_up()
    assert given["ssl.endpoint.identification.algorithm"] == "none"
    (tmp_path / "both.pem").write_text("no certificate")
    with pytest.raises(KafkaRefusedError):
        RecordProducer(given, "topic", 1_000)


def test_a_record_that_nobody_takes_has_failed_after_the_limit_and_librdkafkas_lines_have_a_logger_that_is_off(
    nobody, caplog
):
    caplog.set_level(logging.DEBUG, "librdkafka")
    producer, ends = RecordProducer(arguments(nobody), "topic", 200), []
    producer.send(b"k", b"v", lambda *end: ends.append(end))
    assert ends == []
    until(lambda: producer.poll() or ends)
    ((position, error),) = ends
    assert position is None
    assert isinstance(error, KafkaUnreachableError)
    assert {record.name for record in caplog.records if "rdkafka#" in record.getMessage()} == {"librdkafka"}


def test_a_record_over_the_limit_is_refused_at_once(nobody):
    producer, ends = RecordProducer(arguments(nobody), "topic", 60_000), []
    producer.send(b"k", bytes(18 * 1024 * 1024), lambda *end: ends.append(end))
    assert [type(error) for _, error in ends] == [KafkaRefusedError]


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_producer_that_is_renewed_or_replaced_reports_the_outcome_of_the_records_before(nobody, is_broken):
    producer, before, after = BreakableProducer(arguments(nobody), "topic", 60_000), [], []
    producer.send(b"k", b"v", lambda *end: before.append(end))
    producer.break_for_good() if is_broken else producer.renew()

    @eventually
    def told():
        producer.poll()
        assert [type(error) for _, error in before] == [KafkaUnreachableError]
        after.clear()
        producer.send(b"k", b"v", lambda *end: after.append(end))
        assert after == [], "it is on its way"

    told()
    producer.give_up()
