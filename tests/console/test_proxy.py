"""The console below a path, behind a real nginx with the configuration of docs/console.md, and behind none.

Debian: apt-get install nginx-light chromium chromium-driver.
"""

import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from namesrv_stream.console.serving import ConsoleServer
from namesrv_stream.errors import SettingError
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tools.local.process import HOST, OwnedProcess, free_ports, listens
from tests.console.background import BackgroundConsole
from tests.console.chromium import Page
from tests.console.conftest import Client
from tests.console.keys import basic
from tests.console.orders import WIPE
from tests.console.watching import watch
from tests.log_records import first_records
from tests.waiting import until

DOCUMENT = Path(__file__).parents[2] / "docs/console.md"
LOCATION, LOGIN = re.findall(r"<!-- tested: nginx.*? -->\n```nginx\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
PROXIED = {"X_Forwarded_Host": "registry.example.org:8443", "X_Forwarded_Proto": "https"}


@contextmanager
def nginx(folder, console, location):
    """Run nginx before a console; yields the URL of its path."""
    program, port, log = shutil.which("nginx") or "/usr/sbin/nginx", free_ports(1), folder / "nginx.log"
    server = location.replace("127.0.0.1:9870", console.url.partition("://")[2])
    places = "".join(
        f"{each}_temp_path {folder}/{each}; " for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    file.write_text(
        f"{'user root; ' if os.getuid() == 0 else ''}daemon off; pid {folder}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {places} server {{ listen {HOST}:{port}; {server} }} }}\n"
    )
    process = OwnedProcess([program, "-p", str(folder), "-c", str(file)], log)
    try:
        until(lambda: listens(port) or process.exit_code is not None)
        assert process.exit_code is None, log.read_text()
        yield f"http://{HOST}:{port}/routes"
    finally:
        process.stop()


@pytest.mark.full
@pytest.mark.needs("chromedriver", "nginx")
@pytest.mark.parametrize("keeps_path", [False, True])
def test_behind_nginx_page_changes_and_commands_work_below_a_path(
    kafka, topic, registry, on_topic, driver, tmp_path, keeps_path
):
    more = {"console__trustedProxies": HOST} | ({"console__basePath": "/routes"} if keeps_path else {})
    location = LOCATION.replace("9870/;", "9870;") if keeps_path else LOCATION
    with BackgroundConsole(on_topic(**more)) as console, nginx(tmp_path, console, location) as url:
        page = Page(driver, url)
        page.leave()
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
        assert (sent.status, sent.json["requestedBy"]) == (202, HOST)
        assert [record.reason for _, record in first_records(kafka, topic, 1)] == ["disk full"]
        assert Client(origin).get("/routes/v1/openapi.json").json["servers"] == [{"url": "/routes"}]


USERS = """
[[user]]
name = "ann"
role = "admin"
[[user]]
name = "bob@example.org"
role = "reader"
[[user]]
name = "key"
role = "admin"
accessKey = "key"
secretKey = "key-secret"
"""


@pytest.fixture
def users(tmp_path):
    """Settings with which a proxy at 127.0.0.1 names users, two of whom have no keys."""
    file = tmp_path / "users.toml"
    file.write_text(USERS)
    file.chmod(0o600)
    return {
        "auth__mode": "operators",
        "auth__usersPath": str(file),
        "console__trustedProxies": HOST,
        "console__userHeader": "X-Forwarded-User",
    }


@pytest.mark.usefixtures("quickly_away")
@pytest.mark.parametrize(
    ("proxies", "given", "status"),
    [
        (HOST, {"X_Forwarded_User": "ann"}, 503),  # it goes to Kafka, which nobody runs
        (HOST, {"X_Forwarded_User": "ann", "Authorization": basic("ann", "of the proxy")}, 503),
        (HOST, {"X_Forwarded_User": "key"}, 503),
        (HOST, {"X_Forwarded_User": "bob@example.org"}, 403),
        (HOST, {"X_Forwarded_User": "bob@example.org", "Authorization": basic("key", "key-secret")}, 403),
        (HOST, {"X_Forwarded_User": "eve"}, 403),
        (HOST, {"X_Forwarded_User": "ann,bob"}, 403),
        (HOST, {"X_Forwarded_User": "ann", "x_forwarded_user": "bob@example.org"}, 403),
        (HOST, {"X_Forwarded_User": "ann", "x_forwarded_user": ""}, 403),
        (HOST, {"X_Forwarded_User": "", "Authorization": basic("key", "key-secret")}, 503),
        (HOST, {"X_Forwarded_User": ""}, 401),
        (HOST, {"X_Remote_User": "ann"}, 401),
        ("10.0.0.1", {"X_Forwarded_User": "ann"}, 401),
    ],
)
def test_only_a_trusted_proxy_names_the_user_whose_role_the_users_file_has(
    settings, still_root, users, proxies, given, status
):
    with BackgroundConsole(settings(delta__root=still_root, **users | {"console__trustedProxies": proxies})) as console:
        assert Client(console.url).post(WIPE, **given).status == status


def test_a_header_of_users_needs_proxies_that_are_trusted(settings, users):
    with pytest.raises(SettingError, match=r"console\.userHeader.*console\.trustedProxies"):
        ConsoleServer(settings(**users | {"console__trustedProxies": ""}))


@pytest.mark.needs("nginx")
@pytest.mark.usefixtures("registry")
def test_a_login_at_nginx_is_the_user_in_the_history(kafka, topic, on_topic, tmp_path, users):
    passwords = tmp_path / "passwords"
    passwords.write_text("ann:{PLAIN}one\nbob@example.org:{PLAIN}two\n")
    location = LOCATION.replace("}\n", LOGIN.replace("/etc/nginx/registry.htpasswd", str(passwords)) + "}\n")
    with BackgroundConsole(on_topic(**users)) as console, nginx(tmp_path, console, location) as url:
        client = Client(url.removesuffix("/routes"))
        sent = [
            client.post(WIPE, "/routes/v1/commands", Authorization=basic(*keys), X_Forwarded_User="ann")
            for keys in (("bob@example.org", "two"), ("ann", "two"), ("ann", "one"))
        ]
        assert [each.status for each in sent] == [403, 401, 202]
        assert [record.requested_by for _, record in first_records(kafka, topic, 1)] == [f"ann@{HOST}"]


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


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("10.0.0.5:443", "10.0.0.5:443"),
        ("2001:db8::5", "2001:db8::5"),
        ("[2001:db8::5]", "2001:db8::5"),
        ("[2001:db8::5]:443", "[2001:db8::5]:443"),
        ("::ffff:10.0.0.5", "10.0.0.5"),
        ("192.0.2.1, 10.0.0.5:443", "10.0.0.5:443"),
        *(
            (text, "127.0.0.1:")
            for text in ("", "unknown", "192.0.2.1, unknown", "_hidden", "10.0.0.5:x", "a b:1", "[]:1")
        ),
    ],
)
def test_a_trusted_proxys_address_of_the_sender_counts_if_it_is_one(settings, still_root, caplog, given, named):
    more = {"console__trustedProxies": "127.0.0.1", "console__bindAddress": "0.0.0.0", "auth__mode": "off"}
    with BackgroundConsole(settings(delta__root=still_root, **more)) as console:
        client = Client(console.url.replace("0.0.0.0", "127.0.0.1"))
        update = {"type": "UPDATE_NAMESRV_CONFIG", "properties": {"needWaitForService": "true"}, "reason": "r"}
        assert client.post(update, X_Forwarded_For=given).status == 401
    [peer] = re.findall(r"console: (\S+) is refused", caplog.text)
    assert peer == named or (named.endswith(":") and re.fullmatch(rf"{named}[1-9]\d*", peer))


def test_below_a_base_path_the_console_answers_there(settings, still_root):
    with BackgroundConsole(settings(delta__root=still_root, console__basePath="/routes")) as console:
        client = Client(console.url)
        assert client.get("/routes/v1/overview").json["snapshot"]["epoch"] == 3
        assert client.get("/routes/v1/overview?epcoh=3").status == 400
        assert all(b"<!doctype html>" in client.get(path).body for path in ("/routes/", "/routes/docs"))
        assert client.get("/routes").headers["location"] == "/routes/"
