"""What tests share: one Kafka, one Spark session, and a topic name for each test."""

import os
import sys
import uuid

import pytest

from namesrv_stream.local.jars import CHECKOUT, retrieved_jars
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
    os.environ["SPARK_CONF_DIR"] = str(CHECKOUT / "conf")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- most tests need no Spark, and its import takes a second

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", f"{retrieved_jars('spark')}/*.jar")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    yield session
    session.stop()
