"""Fixtures that tests share: one Kafka, one Spark session, and a topic name for each test."""

import os
import uuid

import pytest
from hypothesis import HealthCheck, settings

# Most JVMs of the tests live for seconds, which the second compiler would take for itself. The session lives long.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
BOTH_COMPILERS = "-XX:TieredStopAtLevel=4"

# No test is about time, which other work on the machine changes: Hypothesis's own limits of time are off.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("default"), max_examples=25)  # make test-quick; else 100
settings.load_profile("default")

MARKER_OF_FIXTURE = {"spark": "spark", "kafka": "system"}


def pytest_collection_modifyitems(items):
    """Marks each test by what it uses, so that `-m 'not spark and not system'` is the quick ones."""
    for item in items:
        for fixture, marker in MARKER_OF_FIXTURE.items():
            if fixture in item.fixturenames:
                item.add_marker(marker)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    from namesrv_stream.local.kafka import LocalKafka  # noqa: PLC0415 -- most tests need no Kafka

    with LocalKafka(tmp_path_factory.mktemp("kafka")) as node:
        yield node


@pytest.fixture
def topic():
    """A name that no other test uses; the topic itself is the test's to make."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from namesrv_stream.local.spark import local_session  # noqa: PLC0415 -- pyspark's import takes a second

    options = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": BOTH_COMPILERS,
    }
    session = local_session("tests", options, cores="2")
    yield session
    session.stop()
