"""The command: what it prints, and as a process of its own, with Kafka away, from start to an orderly end."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import yaml
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.config import load_settings, printed_settings
from namesrv_stream.wire.codes import ResponseCode
from tests.gateway.peer import Peer
from tests.waiting import until

CHART_VALUES = Path(__file__).parents[2] / "deploy" / "helm" / "namesrv-stream" / "values.yaml"
PRE_STOP_S = 5
GRACE_S = yaml.safe_load(CHART_VALUES.read_text())["gateway"]["terminationGracePeriodSeconds"] - PRE_STOP_S
"""Time from SIGTERM to SIGKILL that the chart gives a gateway."""


def run(*words):
    return CliRunner().invoke(main, ["gateway", *map(str, words)])


def test_p_prints_what_is_in_force_of_the_file_and_of_rocketmqs_settings_as_options(tmp_path):
    file = tmp_path / "namesrv.properties"
    file.write_text("listenPort=19876\nenableTopicList=false\n")
    assert run("-c", file, "-p").stdout == printed_settings(load_settings(file))
    done = run("-c", file, "--listenPort", "19877", "--orderMessageEnable=true", "--useTLS", "true", "-p")
    assert {"listenPort=19877", "orderMessageEnable=true", "enableTopicList=false"} <= set(done.stdout.splitlines())
    wrong = run("--listenProt", "1")
    assert (wrong.exit_code, "--listenPort" in wrong.stderr) == (2, True)


def test_it_serves_the_last_snapshot_without_kafka_or_spark_and_ends_on_sigterm(registry, tmp_path, nobody):
    file = tmp_path / "namesrv.properties"
    file.write_text(f"listenPort=0\ndelta.root={registry.root}\nkafka.bootstrap.servers={nobody}\n")
    command = [Path(sys.executable).with_name("namesrv-stream"), "gateway", "-c", file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            port = re.fullmatch(r"The Name Server boot success: 127\.0\.0\.1:(\d+)\n", running.stdout.readline())[1]
            with Peer(int(port)) as peer:
                until(lambda: peer.ask(105, topic="TopicA").code == ResponseCode.SUCCESS)
                loaded = Path(f"/proc/{running.pid}/maps").read_text() if sys.platform == "linux" else ""
                assert "libjvm" not in loaded
                running.send_signal(signal.SIGTERM)
                assert peer.is_closed_by_server()
            _, said = running.communicate(timeout=GRACE_S)
            assert running.returncode == 0
            assert "Traceback" not in said
            assert "behind; the gateway serves its routes unchanged" in said, "the snapshot is years old"
        finally:
            running.kill()
