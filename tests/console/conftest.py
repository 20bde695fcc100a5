"""A console on real tables, with a Kafka that nobody runs, and a client that speaks plain HTTP to it."""

import http.client
import json
from functools import partial
from urllib.parse import urlsplit

import pytest

from namesrv_stream.console import running
from namesrv_stream.kafka.topic import ensure_topic
from tests.build import settings_of
from tests.clock import now_ms
from tests.console.background import BackgroundConsole
from tests.registry import PublishedRegistry
from tests.system.heartbeats import PATIENT


@pytest.fixture(scope="session", autouse=True)
def _patient_start():
    """On a busy machine the first read of the tables can take longer than a console waits for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "FIRST_SNAPSHOT_LIMIT_S", 60.0)
        yield


A, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


class Answered:
    """A status, headers and a body, which is JSON unless it is a file of the page."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)


class Client:
    """Sends requests as they are given: no header is added but Host."""

    def __init__(self, url):
        self.url = url
        self.address = urlsplit(url).netloc

    def get(self, path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            return Answered(connection.getresponse())
        finally:
            connection.close()

    def post(self, body, path="/v1/commands", **headers):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.get(path, "POST", text, **{"Content_Type": "application/json"} | headers)


def make_registry(root):
    """Epoch 1 is the run's claim; 2 and 3 bring broker-a and broker-b."""
    registry = PublishedRegistry(root, now_ms() - 60_000)
    registry.register(A, "c1", "broker-a", topics=("TopicA", "Shared"))
    registry.register(B, "c2", "broker-b", zone_name="z1", topics=("TopicB", "Shared"))
    return registry


def make_settings(root, kafka, **more):
    return settings_of(root, kafka, **{"console__port": 0} | more)


@pytest.fixture(scope="session")
def still_root(tmp_path_factory):
    """The tables of a registry that no test changes."""
    return make_registry(str(tmp_path_factory.mktemp("still") / "registry")).root


@pytest.fixture(scope="session")
def still(still_root, nobody):
    """A client of a console on that registry."""
    with BackgroundConsole(make_settings(still_root, nobody)) as console:
        yield Client(console.url)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A registry that stays as it is: tests have copies of it."""
    return make_registry(str(tmp_path_factory.mktemp("made") / "registry"))


@pytest.fixture
def registry(made, tmp_path):
    return made.copied_to(str(tmp_path / "registry"))


@pytest.fixture
def settings(tmp_path, nobody):
    return lambda **more: make_settings(more.pop("delta__root", str(tmp_path / "registry")), nobody, **more)


@pytest.fixture
def client(registry, settings):
    with BackgroundConsole(settings()) as console:
        yield Client(console.url)


@pytest.fixture
def on_topic(kafka, topic, settings):
    """Settings of a console that sends commands to a topic of the test's own."""
    ensure_topic(PATIENT | {"bootstrap.servers": kafka.bootstrap_servers}, topic)
    return partial(settings, kafka__bootstrap__servers=kafka.bootstrap_servers, kafka__topic=topic)


@pytest.fixture(scope="module")
def driver():
    from tests.console.chromium import chromium  # noqa: PLC0415 -- few tests need a browser

    with chromium() as driver:
        yield driver


@pytest.fixture
def page(registry, settings, driver):
    """A page on a console of the registry; at its end the browser has logged no error."""
    from tests.console.chromium import window  # noqa: PLC0415 -- few tests need a browser

    with window(driver, settings()) as page:
        yield page
        assert page.errors == []
