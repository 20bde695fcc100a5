"""The log of one test; and a registry with a gateway for a module's tests with RocketMQ's peers."""

import pytest

from tests.system.gateway_stack import running_stack
from tests.system.heartbeats import Heartbeats


@pytest.fixture
def heartbeats(kafka, topic, tmp_path):
    log = Heartbeats(kafka, topic, tmp_path)
    yield log
    log.close()


@pytest.fixture(scope="module")
def stack(kafka, spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "kvConfig.json").write_text('{"configTable":{"TAKEN_OVER":{"key":"value"}}}')
    with running_stack(kafka, spark, folder) as running:
        yield running
