"""What tests share: one Kafka, one Spark session, and a topic name for each test."""

import uuid

import pytest

from namesrv_stream.local.kafka import LocalKafka

MARKER_OF_FIXTURE = {"spark": "spark", "kafka": "system"}


def pytest_collection_modifyitems(items):
    """Marks each test by what it uses, so that `-m 'not spark and not system'` is the quick ones."""
    for item in items:
        for fixture, marker in MARKER_OF_FIXTURE.items():
            if fixture in item.fixturenames:
                item.add_marker(marker)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as node:
        yield node


@pytest.fixture
def topic():
    """A name that no other test uses; the topic itself is the test's to make."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from namesrv_stream.local.spark import local_session  # noqa: PLC0415 -- pyspark's import takes a second

    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    session = local_session("tests", {"spark.sql.warehouse.dir": warehouse, "spark.driver.memory": "2g"}, cores="2")
    yield session
    session.stop()
