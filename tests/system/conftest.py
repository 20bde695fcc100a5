"""One registry with a gateway for all tests with RocketMQ's peers; each uses names of its own."""

import pytest

from tests.system.gateway_stack import running_stack


@pytest.fixture(scope="session")
def stack(kafka, spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "kvConfig.json").write_text('{"configTable":{"TAKEN_OVER":{"key":"value"}}}')
    with running_stack(kafka, spark, folder) as running:
        yield running
