"""The command: as a process of its own, with Kafka away, from start to an orderly end."""

import signal
import subprocess
import sys
from pathlib import Path

import yaml

from namesrv_stream.config import load_settings, to_properties_text
from namesrv_stream.gateway.background_gateway import BackgroundGateway
from namesrv_stream.wire.codes import ResponseCode
from tests.gateway.peer import Peer
from tests.gateway.process import PROGRAM, await_snapshot, gateway_process

CHART_VALUES = Path(__file__).parents[2] / "deploy" / "helm" / "namesrv-stream" / "values.yaml"
PRE_STOP_S = 5
GRACE_S = yaml.safe_load(CHART_VALUES.read_text())["gateway"]["terminationGracePeriodSeconds"] - PRE_STOP_S
"""Time from SIGTERM to SIGKILL that the chart gives a gateway."""


def test_p_prints_what_is_in_force_and_ends(tmp_path):
    file = tmp_path / "namesrv.properties"
    file.write_text("listenPort=19876\nenableTopicList=false\n")
    done = subprocess.run([PROGRAM, "gateway", "-c", file, "-p"], capture_output=True, text=True, check=True)
    assert done.stdout == to_properties_text(load_settings(file))
    assert "listenPort=19876\n" in done.stdout


def test_p_and_request_319_show_no_password_in_an_address(registry, settings):
    proxy = {"delta__storage__proxy_url": "http://user:geheim@proxy:3128", "kafka__ssl__key__password": "geheim"}
    given = settings(**proxy)
    assert given.storage_options["proxy_url"] == "http://user:geheim@proxy:3128"
    with BackgroundGateway(given) as running, Peer(running.gateway.port) as peer:
        shown = peer.ask(319).body.decode()
    assert shown == to_properties_text(given)
    assert "geheim" not in shown
    assert "delta.storage.proxy_url=http://******@proxy:3128\n" in shown


def test_unknown_setting_is_an_error_that_names_the_nearest(tmp_path):
    file = tmp_path / "namesrv.properties"
    file.write_text("listenPrt=1\n")
    done = subprocess.run([PROGRAM, "gateway", "-c", file], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Did you mean listenPort?" in done.stderr


def test_it_serves_the_last_snapshot_without_kafka_or_spark_and_ends_on_sigterm(registry, tmp_path, nobody):
    with gateway_process(tmp_path, registry.root, nobody, subprocess.PIPE) as (running, port):
        await_snapshot(port, "TopicA")
        with Peer(port) as peer:
            assert peer.ask(105, topic="TopicA").code == ResponseCode.SUCCESS
            loaded = Path(f"/proc/{running.pid}/maps").read_text() if sys.platform == "linux" else ""
            assert "libjvm" not in loaded
            running.send_signal(signal.SIGTERM)
            assert peer.is_closed_by_server()
        _, said = running.communicate(timeout=GRACE_S)
        assert running.returncode == 0
        assert "Traceback" not in said
        assert "brokers live: is the job running?" in said, "the snapshot is years old"


def test_settings_of_rocketmq_are_options_too():
    words = [PROGRAM, "gateway", "--listenPort", "19876", "--orderMessageEnable=true", "--useTLS", "true", "-p"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert {"listenPort=19876", "orderMessageEnable=true"} <= set(done.stdout.splitlines())


def test_an_option_that_is_no_setting_is_refused_with_the_nearest():
    done = subprocess.run([PROGRAM, "gateway", "--listenProt", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--listenPort" in done.stderr
