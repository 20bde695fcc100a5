import re

import pytest

from namesrv_stream.config import kafka_client_arguments, load_settings, spark_kafka_options
from namesrv_stream.errors import SettingError

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";'


def settings(**options):
    return load_settings(options={f"kafka.{key}": text for key, text in options.items()})


def test_spark_gets_every_option_as_it_was_written():
    options = {"bootstrap.servers": "a:1,b:2", "security.protocol": "SSL", "fetch.max.bytes": "5"}
    assert spark_kafka_options(settings(**options)) == {f"kafka.{key}": text for key, text in options.items()}


def test_topic_is_no_option_of_kafkas_clients():
    assert "kafka.topic" not in spark_kafka_options(settings(topic="t"))
    assert "topic" not in kafka_client_arguments(settings(topic="t"))


def test_python_clients_get_the_same_security():
    given = {
        "bootstrap.servers": "a:1, b:2",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": SCRAM,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "pem",
        "ssl.keystore.location": "/client.pem",
        "ssl.key.password": "k",
        "ssl.endpoint.identification.algorithm": "",
        "request.timeout.ms": "5000",
        "client.id": "registry",
        "max.poll.records": "7",
        "session.timeout.ms": "7",
    }
    assert kafka_client_arguments(settings(**given)) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/client.pem",
        "ssl.key.location": "/client.pem",
        "ssl.key.password": "k",
        "ssl.endpoint.identification.algorithm": "none",
        "request.timeout.ms": 5000,
        "client.id": "registry",
    }


def test_a_ticket_of_kerberos_needs_no_password_in_python():
    given = {"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"}
    assert kafka_client_arguments(settings(**given, **{"sasl.mechanism": "GSSAPI"})).keys() == {
        "bootstrap.servers",
        "sasl.mechanism",
    }


@pytest.mark.parametrize(
    ("jaas", "password"),
    [
        ("x.PlainLoginModule required username=u password=p;", "p"),
        ('x.PlainLoginModule required password="p;\\"=\\\\ x"\n username="u" ;', 'p;"=\\ x'),
        ('x.PlainLoginModule required username="u" password="";', ""),
    ],
)
def test_jaas_user_and_password_may_be_quoted(jaas, password):
    arguments = kafka_client_arguments(settings(**{"sasl.jaas.config": jaas}))
    assert (arguments["sasl.username"], arguments["sasl.password"]) == ("u", password)


@pytest.mark.parametrize(
    ("options", "use"),
    [
        ({"security.protocol": "TLS"}, "SASL_SSL"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, "SCRAM-SHA-256"),
        ({"sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;"}, "PlainLoginModule required"),
        ({"sasl.jaas.config": 'x.PlainLoginModule required username="u";'}, "password="),
        ({"ssl.truststore.location": "/ca.jks"}, "kafka.ssl.truststore.type=PEM"),
        ({"ssl.keystore.location": "/c.p12", "ssl.keystore.type": "PKCS12"}, "kafka.ssl.keystore.type=PEM"),
        ({"ssl.keystore.key": "-----BEGIN"}, "kafka.ssl.keystore.location"),
        ({"ssl.truststore.certificates": "-----BEGIN"}, "kafka.ssl.truststore.location"),
        ({"request.timeout.ms": "5s"}, "whole number"),
    ],
)
def test_an_option_that_python_cannot_use_is_an_error_that_names_one_that_it_can(options, use):
    with pytest.raises(SettingError, match=re.escape(use)) as error:
        kafka_client_arguments(settings(**options))
    assert error.value.key.startswith("kafka.")
    assert spark_kafka_options(settings(**options)).keys() > {f"kafka.{key}" for key in options}
