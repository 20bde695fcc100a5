"""Fixtures that tests share: one Kafka and one Spark session a process, and a topic name for each test."""

import logging
import os
import pwd
import shutil
import socket
import uuid

import pytest
from hypothesis import HealthCheck, settings

from namesrv_stream import errors
from namesrv_stream.reporting import logs

# The JVMs of the tests live for seconds or minutes, which the second compiler would take for itself.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
OF_LONG_LIFE = "-XX:TieredStopAtLevel=4 -XX:+UseSerialGC"
"""Options of a JVM for `make test-full`, in which it lives for a quarter of an hour."""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Options of Spark for `make test`, whose plans run once: to compile them takes longer. `make test-full` compiles."""

# No test is about time, which other work on the machine changes: Hypothesis's own limits of time are off.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("default"), max_examples=10)  # make test-quick; else 100
settings.load_profile("default")

# A client without a Kafka logs from its own thread, now and then into the next test; processes are quiet about it too.
logging.getLogger("librdkafka").setLevel(logs.QUIET["librdkafka"])

pytest.register_assert_rewrite("tests.data", "tests.answers.by_the_hour")

MARKER_OF_FIXTURE = {"spark": "spark", "kafka_node": "system"}

SOURCES = {
    "chromedriver": "Debian's packages chromium and chromium-driver",
    "nginx": "Debian's package nginx-light",
    "prometheus": "Debian's package prometheus",
    "promtool": "Debian's package prometheus",
}
"""Program that a test `needs` -> what has it."""


LEAKS = (
    "error::ResourceWarning",
    "error::pytest.PytestUnraisableExceptionWarning",
    # kafka-python 3.0 does not close the sockets of an attempt to connect that failed.
    "ignore:unclosed <socket.socket fd=[0-9]+, family=[0-9]+, type=1, proto=6, laddr=.'0.0.0.0',:ResourceWarning",
    "ignore:unclosed <socket.socket fd=[0-9]+, family=1, type=1, proto=0>:ResourceWarning",
)
"""Filters of warnings for a run without Spark and Kafka, in which no foreign process leaves anything behind."""


def pytest_collection_finish(session):
    markers = {marker.name for item in session.items for marker in item.iter_markers()}
    if markers.isdisjoint(MARKER_OF_FIXTURE.values()):
        for line in LEAKS:
            session.config.addinivalue_line("filterwarnings", line)


def pytest_collection_modifyitems(items):
    """Marks each test by what it uses, so that `-m 'not spark and not system'` is the quick ones."""
    for item in items:
        for fixture, marker in MARKER_OF_FIXTURE.items():
            if fixture in item.fixturenames:
                item.add_marker(marker)


def pytest_runtest_setup(item):
    """Fails a long test whose program the machine lacks, so that `make test-full` names it; skips any other."""
    path = f"{os.environ['PATH']}:/usr/sbin"  # Debian puts servers where no user's PATH leads
    for program in (name for marker in item.iter_markers("needs") for name in marker.args):
        if shutil.which(program, path=path) is None:
            refuse = pytest.fail if item.get_closest_marker("full") else pytest.skip
            refuse(f"this machine has no {program}: install {SOURCES[program]}")


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch):
    """Undo what a test sets for its whole process: secrets to hide, and what is logged."""
    monkeypatch.setattr(errors, "_noted", set())
    loggers = [logging.getLogger(name) for name in (None, *logs.QUIET)]
    before = [(logger, logger.level, logger.filters[:]) for logger in loggers]
    yield
    for logger, level, filters in before:
        logger.filters[:] = filters
        if logger.level != level:
            logger.setLevel(level)


@pytest.fixture(scope="session")
def patient_start():
    """A start waits for the tables: on a busy machine their first read can take longer than a start usually waits."""
    from namesrv_stream.gateway import gateway  # noqa: PLC0415 -- most tests need none

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway, "FIRST_SNAPSHOT_LIMIT_S", 60.0)
        yield


@pytest.fixture
def unnamed(monkeypatch):
    """The number of this user, for whom the machine has neither a name nor a home, as in a container."""

    def unknown(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    return os.getuid()


@pytest.fixture(scope="session")
def kafka_node(tmp_path_factory):
    from namesrv_stream.tools.local.kafka_server import LocalKafka  # noqa: PLC0415 -- most tests need no Kafka

    with LocalKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka(kafka_node):
    """The Kafka of all tests."""
    return kafka_node


@pytest.fixture
def node(kafka_node):
    """The Kafka of all tests, for a test that pauses or kills it: it runs again afterwards."""
    yield kafka_node
    if kafka_node.pid is None:
        kafka_node.start()


@pytest.fixture
def topic():
    """A name that no other test uses; the topic itself is the test's to make."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def spark(request, tmp_path_factory):
    from namesrv_stream.tools.local.spark import local_session  # noqa: PLC0415 -- pyspark's import takes a second

    options = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.memory": "2g",
    }
    if "not full" in request.config.option.markexpr:
        options |= INTERPRETED
    else:
        options["spark.driver.extraJavaOptions"] = OF_LONG_LIFE
    session = local_session("tests", options, cores="2")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def nobody():
    """host:port where nobody listens for as long as the tests run."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def quickly_away(monkeypatch):
    """A Kafka that does not answer at once counts as away, for tests that have none: users wait 5 s for it."""
    monkeypatch.setattr("namesrv_stream.kafka.topic._ANSWER_LIMIT_MS", 100)
