"""Rights to send commands, and the web pages that may reach the console at all."""

import pytest

from namesrv_stream.console.serving import ConsoleServer
from namesrv_stream.errors import SettingError
from tests.console.background import BackgroundConsole
from tests.console.conftest import Client, make_settings
from tests.console.keys import basic
from tests.data import data

ADMITTED = data(__file__, "admitted.yaml")
REFUSED = data(__file__, "refused_commands.yaml")
WIPE = {"type": "WIPE_WRITE_PERM_OF_BROKER", "brokerName": "broker-a", "reason": "disk full"}


pytestmark = pytest.mark.usefixtures("quickly_away")

USERS = {"ann": "admin", "bob": "reader"}


@pytest.fixture(scope="module")
def closed(still_root, nobody, tmp_path_factory):
    users = tmp_path_factory.mktemp("users") / "users.toml"
    lines = '[[user]]\nname = "{0}"\nrole = "{1}"\naccessKey = "{0}"\nsecretKey = "{0}-secret"\n'
    users.write_text("".join(lines.format(*each) for each in USERS.items()))
    users.chmod(0o600)
    settings = make_settings(still_root, nobody, auth__mode="operators", auth__usersPath=str(users))
    with BackgroundConsole(settings) as console:
        yield Client(console.url)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("Basic ???", 401),
        ("Bearer ann-secret", 401),
        (basic("ann", "wrong"), 401),
        (basic("nobody", "ann-secret"), 401),
        (basic("bob", "bob-secret"), 403),
        (basic("ann", "ann-secret"), 503),  # admitted, and Kafka is away
    ],
)
def test_a_command_needs_the_keys_of_an_admin_and_a_lookup_none(closed, authorization, status):
    headers = {} if authorization is None else {"Authorization": authorization}
    for command in (WIPE, {"type": "LIFT_EXPIRY_GUARD", "reason": "these brokers are gone"}):
        answer = closed.post(command, **headers)
        assert (answer.status, "www-authenticate" in answer.headers) == (status, status == 401)
    assert closed.get("/v1/clusters").status == 200


@pytest.mark.parametrize(("status", "kind", "headers"), ADMITTED)
def test_pages_of_the_consoles_own_name_and_origin_alone_ask_it_and_send_commands(still, status, kind, headers):
    given = {name: value.replace("OWN", still.url) for name, value in headers.items()}
    answer = still.post(WIPE, **given) if kind == "command" else still.get("/v1/clusters", **given)
    assert (answer.status, status == 503) == (status, "Kafka at" in answer.json.get("detail", ""))


def test_a_console_is_asked_under_the_names_that_are_set_and_below_a_domain(settings, still_root):
    names = ["registry", "REGISTRY.:80", "example.org", "a.b.example.org", "xn--e1aa5aceg.example"]
    others = ["badexample.org", "a.registry"]
    hosts = "registry:9870,.example.org,https://реестр.example/"
    with BackgroundConsole(settings(delta__root=still_root, console__hosts=hosts)) as console:
        found = [Client(console.url).get("/v1/openapi.json", Host=name).status for name in (*names, *others)]
    assert found == [200] * len(names) + [421] * len(others)


@pytest.mark.parametrize("path", ["/", "/v1/clusters", "/v1/nothing", "/main.js"])
def test_every_answer_forbids_scripts_and_frames_of_others(still, path):
    headers = still.get(path).headers
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] in {"no-cache", "no-store"}


@pytest.mark.parametrize("path", ["/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "//etc/passwd"])
def test_no_file_but_the_pages_is_served(still, path):
    assert still.get(path).status == 404


@pytest.mark.parametrize(("status", "told", "command"), REFUSED)
def test_a_command_that_the_job_would_reject_or_for_a_name_that_is_not_there_is_not_sent(still, status, told, command):
    answer = still.post(command)
    assert (answer.status, told in answer.json["detail"]) == (status, True)
    even_so = still.post(command, "/v1/commands?unknown=true").status
    assert even_so == (503 if status == 409 else status), "503: it goes to Kafka, which nobody runs"


@pytest.mark.parametrize(
    ("body", "told"), [(b"{", "JSON"), (b"x" * 70_000, "at most"), (WIPE | {"reason": "x" * 501}, "500")]
)
def test_a_body_that_is_no_command_or_too_long_is_refused(still, body, told):
    answer = still.post(body)
    assert (answer.status, told in answer.json["detail"]) == (400, True)


def test_settings_that_stop_lookups_need_an_admin_also_where_all_else_is_open(settings, still_root):
    open_to_all = settings(delta__root=still_root, console__bindAddress="0.0.0.0", auth__mode="off")
    with BackgroundConsole(open_to_all) as console:
        client = Client(console.url.replace("0.0.0.0", "127.0.0.1"))
        update = {"type": "UPDATE_NAMESRV_CONFIG", "properties": {"needWaitForService": "true"}, "reason": "r"}
        assert client.post(update).status == 401
        assert client.post(WIPE).status == 503


def test_a_console_that_others_reach_needs_a_decision(settings):
    with pytest.raises(SettingError, match=r"auth\.mode"):
        ConsoleServer(settings(console__bindAddress="0.0.0.0"))
