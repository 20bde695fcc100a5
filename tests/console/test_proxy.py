# ruff: noqa: F811 -- fixtures that are imported
"""The console below a path, behind a real nginx with the configuration of docs/console.md, and behind none.

Debian: apt-get install nginx-light chromium chromium-driver.
"""

import re
import shutil
from pathlib import Path

import pytest

from namesrv_stream.kafka.topic import ensure_topic
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tools.local.process import HOST, OwnedProcess, free_ports, listens
from tests.console.background import BackgroundConsole
from tests.console.conftest import Client
from tests.console.test_commands import WIPE
from tests.console.test_page import Page, driver  # noqa: F401  # a fixture
from tests.console.watching import watch
from tests.log_records import first_records
from tests.system.heartbeats import PATIENT
from tests.waiting import eventually

DOCUMENT = Path(__file__).parents[2] / "docs/console.md"
[LOCATION] = re.findall(r"<!-- tested: nginx -->\n```nginx\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
PROXIED = {"X_Forwarded_Host": "registry.example.org:8443", "X_Forwarded_Proto": "https"}


@pytest.fixture
def nginx(tmp_path):
    """Starts nginx before a console, and returns the URL of its path."""
    running = []

    def start(console, location=LOCATION):
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        port = free_ports(1)
        server = location.replace("127.0.0.1:9870", console.url.partition("://")[2])
        places = "".join(
            f"{each}_temp_path {tmp_path}/{each}; " for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        file = tmp_path / "nginx.conf"
        file.write_text(
            f"daemon off; pid {tmp_path}/pid; error_log stderr; events {{}}\n"
            f"http {{ access_log off; {places} server {{ listen {HOST}:{port}; {server} }} }}\n"
        )
        process = OwnedProcess([program, "-p", str(tmp_path), "-c", str(file)], tmp_path / "nginx.log")
        running.append(process)
        eventually(lambda: _assert_listens(process, port, tmp_path / "nginx.log"))()
        return f"http://{HOST}:{port}/routes"

    yield start
    for process in running:
        process.stop()


def _assert_listens(process, port, log):
    assert process.exit_code is None or pytest.fail(log.read_text())
    assert listens(port)


@pytest.mark.full
@pytest.mark.needs("chromedriver", "nginx")
@pytest.mark.parametrize("keeps_path", [False, True])
def test_behind_nginx_page_changes_and_commands_work_below_a_path(
    kafka, topic, registry, settings, nginx, driver, keeps_path
):
    ensure_topic(PATIENT | {"bootstrap.servers": kafka.bootstrap_servers}, topic)
    given = {"kafka__bootstrap__servers": kafka.bootstrap_servers, "kafka__topic": topic}
    more = {"console__trustedProxies": HOST} | ({"console__basePath": "/routes"} if keeps_path else {})
    location = LOCATION.replace("9870/;", "9870;") if keeps_path else LOCATION
    with BackgroundConsole(settings(**given, **more)) as console:
        url = nginx(console, location)
        page = Page(driver, url)
        driver.get("about:blank")
        driver.get_log("browser")  # what a page of a server that has ended says
        page.open()
        page.shows("broker-a")
        assert page.errors == []
        events = watch(url)
        assert next(events).epoch == 3
        registry.command(PutKvConfig(namespace="N", key="k", value="v"))
        assert next(events).epoch == 4
        page.open("#/broker/broker-a")
        page.shows("broker-a")
        origin = url.removesuffix("/routes")
        sent = Client(origin).post(WIPE, "/routes/v1/commands", Origin=origin, Sec_Fetch_Site="same-origin")
        assert (sent.status, sent.json["requestedBy"]) == (202, f"{HOST}:0")
        assert [record.reason for _, record in first_records(kafka, topic, 1)] == ["disk full"]
        assert Client(origin).get("/routes/v1/openapi.json").json["servers"] == [{"url": "/routes"}]


@pytest.mark.usefixtures("quickly_away")
@pytest.mark.parametrize(
    ("proxies", "origin", "status"),
    [
        ("127.0.0.0/8", "https://registry.example.org:8443", 503),  # it goes to Kafka, which nobody runs
        ("127.0.0.0/8", "https://registry.example.org", 403),
        ("10.0.0.1", "https://registry.example.org:8443", 421),
        ("", "https://registry.example.org:8443", 421),
    ],
)
def test_the_headers_of_a_trusted_proxy_alone_count_and_name_the_origin(settings, still_root, proxies, origin, status):
    more = {"console__trustedProxies": proxies, "console__hosts": "registry.example.org"}
    with BackgroundConsole(settings(delta__root=still_root, **more)) as console:
        client = Client(console.url)
        sent = client.post(WIPE, Host="backend", **PROXIED, Origin=origin, Sec_Fetch_Site="same-origin")
        assert sent.status == status
        other = client.get("/", X_Forwarded_Host="evil.example.org")
        assert other.status == (421 if proxies == "127.0.0.0/8" else 200)


def test_below_a_base_path_the_console_answers_there(settings, still_root):
    with BackgroundConsole(settings(delta__root=still_root, console__basePath="/routes")) as console:
        client = Client(console.url)
        assert client.get("/routes/v1/overview").json["snapshot"]["epoch"] == 3
        assert client.get("/routes/v1/overview?epcoh=3").status == 400
        assert all(b"<!doctype html>" in client.get(path).body for path in ("/routes/", "/routes/docs"))
        assert client.get("/routes").headers["location"] == "/routes/"
