"""The command: as a process of its own, from start to an orderly end, with watches open."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from namesrv_stream.console.serving import ConsoleServer
from namesrv_stream.errors import NamesrvError
from tests.console.watching import watch

PROGRAM = Path(sys.executable).with_name("namesrv-stream")
CHART_VALUES = Path(__file__).parents[2] / "deploy" / "helm" / "namesrv-stream" / "values.yaml"
GRACE_S = yaml.safe_load(CHART_VALUES.read_text())["console"]["terminationGracePeriodSeconds"]
WATCHES = 20


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
def test_a_signal_ends_it_and_all_its_watches_in_order(still_root, number):
    command = [PROGRAM, "console", "--root", still_root, "--set", "console.port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = re.fullmatch(r"console: (http://127\.0\.0\.1:\d+)/\n", process.stdout.readline())[1]
            watches = [watch(url, ["TopicA"]) for _ in range(WATCHES)]
            assert {next(events).name for events in watches} == {"route"}
            process.send_signal(number)
            _, log = process.communicate(timeout=GRACE_S)
        finally:
            process.kill()
    assert (process.returncode, "Traceback" in log) == (0, False)
    assert log.splitlines()[-1].endswith("the console has stopped")
    for events in watches:
        *_, last = events
        assert (last.name, "this console stops" in last.data["reason"]) == ("dropped", True)


def test_an_address_that_is_taken_names_the_command_that_tells_by_whom(settings):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NamesrvError, match=rf"cannot listen at 127.0.0.1:{port}: .*`ss -ltnp 'sport = :{port}'`"):
            ConsoleServer(settings(console__port=port))
