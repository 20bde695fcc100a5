"""The JVM that Python drives: by this process alone."""

from contextlib import contextmanager

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from tests import java_client


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Without RocketMQ's jars, which a token does not need."""
    monkeypatch.setattr(java_client, "retrieved_jars", lambda name: tmp_path)
    with java_client.client_jvm(tmp_path) as java:
        yield java


@contextmanager
def driven(port, **more):
    java = JavaGateway(gateway_parameters=GatewayParameters(port=port, **more))
    try:
        yield java.jvm
    finally:
        java.close()


def test_who_has_the_token_drives_the_jvm_and_nobody_else(java):
    assert java.jvm.java.lang.Math.abs(-7) == 7
    for wrong in ({}, {"auth_token": "guessed"}):
        with driven(java.gateway_parameters.port, **wrong) as other, pytest.raises(Py4JError):
            other.java.lang.Math.abs(-7)
