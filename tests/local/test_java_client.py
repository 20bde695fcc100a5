"""The JVM that Python drives: by this process alone."""

import stat
from contextlib import contextmanager

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from namesrv_stream.tools.local import rocketmq_servers as rocketmq


@pytest.fixture
def jvm(tmp_path, monkeypatch):
    """Without RocketMQ's jars, which a token does not need."""
    monkeypatch.setattr(rocketmq, "retrieved_jars", lambda name: tmp_path)
    with rocketmq.ClientJvm(tmp_path, rocketmq.Release.V5) as running:
        yield running


@contextmanager
def driven(jvm, **more):
    java = JavaGateway(gateway_parameters=GatewayParameters(port=jvm.port, **more))
    try:
        yield java.jvm
    finally:
        java.close()


def test_who_has_the_token_drives_the_jvm_and_nobody_else(jvm, tmp_path):
    with driven(jvm, auth_token=jvm.token) as driven_jvm:
        assert driven_jvm.java.lang.Math.abs(-7) == 7
    for wrong in ({}, {"auth_token": "guessed"}):
        with driven(jvm, **wrong) as driven_jvm, pytest.raises(Py4JError):
            driven_jvm.java.lang.Math.abs(-7)
    assert stat.S_IMODE((tmp_path / "client-console.log").stat().st_mode) == 0o600
