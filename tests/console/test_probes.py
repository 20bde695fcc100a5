"""/healthz and /readyz of the console, as the Deployment of deploy/ asks for them."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from namesrv_stream.tools.local.jars import CHECKOUT
from tests.console.background import BackgroundConsole
from tests.console.conftest import Client


def test_a_console_with_a_snapshot_answers_each_probe_of_the_deployment(client):
    template = (CHECKOUT / "deploy" / "helm" / "namesrv-stream" / "templates" / "console.yaml").read_text()
    paths = re.findall(r"httpGet: {path: (\S+),", template)
    assert sorted(paths) == ["/healthz", "/readyz"]
    for path in paths:
        client.get("/v1/watch?wait=1ms")  # returns once there is a snapshot to watch from
        assert client.get(path).body == b"ok\n"


def test_a_console_without_a_snapshot_is_healthy_and_not_ready(tmp_path, settings):
    with BackgroundConsole(settings(**{"delta.root": str(tmp_path / "none")})) as console:
        found = {path: Client(console.url).get(path) for path in ("/healthz", "/readyz", "/v1/overview")}
    assert [each.status for each in found.values()] == [200, 503, 503]
    assert found["/readyz"].body == b"no snapshot has been read yet\n"
    assert "no registry at" in found["/v1/overview"].json["detail"]


def test_a_console_exports_its_descriptors_threads_and_memory(client):
    page = client.get("/metrics").body.decode()
    samples = {s.name: s.value for family in text_string_to_metric_families(page) for s in family.samples}
    for name in ("open_fds", "max_fds", "threads", "resident_memory_bytes"):
        assert samples[f"process_{name}"] > 0, name


@pytest.mark.parametrize("path", ["/v1/overview", "/v1/brokers", "/", "/healthz"])
def test_head_has_the_headers_of_get_and_no_body(still, path):
    answer = still.get(path, method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == still.get(path).headers["content-type"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/overview", "GET, HEAD"),
        ("POST", "/v1/topics/TopicA", "GET, HEAD"),
        ("PUT", "/v1/commands", "POST"),
        ("GET", "/v1/commands", "POST"),
        ("HEAD", "/v1/commands", "POST"),
        ("HEAD", "/v1/watch", "GET"),
        ("POST", "/v1/openapi.json", "GET, HEAD"),
        ("DELETE", "/style.css", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("POST", "/v1/nothing", None),
    ],
)
@pytest.mark.parametrize("sent", [{}, {"Content_Type": "application/json"}])
def test_a_method_that_a_path_lacks_is_refused_with_those_that_it_has(still, method, path, allowed, sent):
    answer = still.get(path, method=method, **sent)
    assert (answer.status, answer.headers.get("allow")) == (405 if allowed else 404, allowed)
