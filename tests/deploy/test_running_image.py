"""The image is built and run: job and gateway start in it against a Kafka, and a route is looked up."""

import contextlib
import json
import os
from functools import partial

import psutil
import pytest

from namesrv_stream import __version__
from namesrv_stream.tools.local.process import HOST, free_ports
from tests import waiting
from tests.deploy.built_image import Builder, require_tools
from tests.gateway.peer import Peer
from tests.system.heartbeats import Heartbeats, address, registration

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3_600)]

USER = 10001
LIMIT_S = 300
LONG_LEASE_MS = 1_800_000
eventually = partial(waiting.eventually, limit_s=LIMIT_S)


@pytest.fixture(scope="module")
def container(tmp_path_factory):
    require_tools()
    return Builder(tmp_path_factory.mktemp("image")).container()


@pytest.fixture
def volume(tmp_path):
    folder = tmp_path / "volume"
    folder.mkdir()
    os.chown(folder, USER, 0)
    return folder


def test_the_image_has_this_release_its_user_and_no_tool_of_a_build(container, volume):
    assert container.output(volume, "namesrv-stream", "--version").split()[-1] == __version__
    assert container.output(volume, "id", "-u").strip() == str(USER)
    assert container.output(volume, "bash", "-c", "command -v gcc pytest || echo none").strip() == "none"


@eventually
def await_end(process):
    assert process.exit_code is not None
    return process.exit_code


def kill(process):
    """End what runs in the container too, which outlives `buildah run`."""
    if process.exit_code is None:
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()


def end_in_order(process):
    """Send SIGTERM to the container's first process, as an engine does."""
    [first] = [each for each in psutil.Process(process.pid).children(recursive=True) if each.name() == "tini"]
    first.terminate()
    return await_end(process)


def test_job_and_gateway_start_in_it_and_a_route_is_looked_up(container, volume, kafka, topic, tmp_path):
    port = free_ports(1)
    log = Heartbeats(kafka, topic, tmp_path)
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers, "kafka.topic": topic, "bindAddress": HOST,
        "listenPort": str(port), "delta.root": "/var/lib/namesrv/registry",
    }  # fmt: skip
    settings = [word for key, text in given.items() for word in ("--set", f"{key}={text}")]
    log.say(registration(1, heartbeat_timeout_millis=LONG_LEASE_MS))
    job = container.start(tmp_path / "job.log", volume, "namesrv-stream", *settings, "submit")
    gateway = container.start(tmp_path / "gateway.log", volume, "namesrv-stream", *settings, "gateway")
    try:
        route = await_route(port, job, tmp_path)
        assert [each["brokerAddrs"] for each in route["brokerDatas"]] == [{"0": address(1)}]
        shown = container.output(volume, "namesrv-stream", *settings, "topicRoute", "-t", "TopicA", "--json")
        assert address(1) in shown
        assert (end_in_order(gateway), end_in_order(job)) == (0, 0), (tmp_path / "job.log").read_text()[-3_000:]
        assert "the job has stopped cleanly" in (tmp_path / "job.log").read_text()
    finally:
        log.close()
        for process in (job, gateway):
            kill(process)


@eventually
def await_route(port, job, folder):
    assert job.exit_code is None or pytest.fail((folder / "job.log").read_text()[-3_000:])
    with Peer(port) as peer:
        answer = peer.ask(105, topic="TopicA", acceptStandardJsonOnly="true")
    assert answer.code == 0, (folder / "gateway.log").read_text()[-3_000:]
    return json.loads(answer.body)
