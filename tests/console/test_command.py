"""The command: as a process of its own, from start to an orderly end, with watches open."""

import contextlib
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

PROGRAM = Path(sys.executable).with_name("namesrv-stream")
CHART_VALUES = Path(__file__).parents[2] / "deploy" / "helm" / "namesrv-stream" / "values.yaml"
GRACE_S = yaml.safe_load(CHART_VALUES.read_text())["console"]["terminationGracePeriodSeconds"]
WATCHES = 20


@contextlib.contextmanager
def running_console(root, *options):
    """The process and its port."""
    command = [PROGRAM, "console", "--root", root, "--set", "console.port=0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process, int(re.fullmatch(r"console: http://127\.0\.0\.1:(\d+)/\n", process.stdout.readline())[1])
    finally:
        process.kill()
        process.communicate()


def open_watch(port, stack):
    """A connection that has received the first event."""
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=GRACE_S))
    connection.sendall(b"GET /v1/watch?topic=TopicA HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    lines = stack.enter_context(connection.makefile("rb"))
    assert next(line for line in lines if line.startswith(b"event: ")) == b"event: route\n"
    return lines


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
def test_a_signal_ends_it_and_all_its_watches_in_order(still_root, number):
    with contextlib.ExitStack() as stack:
        process, port = stack.enter_context(running_console(still_root))
        watches = [open_watch(port, stack) for _ in range(WATCHES)]
        process.send_signal(number)
        _, log = process.communicate(timeout=GRACE_S)
        assert (process.returncode, "Traceback" in log) == (0, False)
        assert log.splitlines()[-1].endswith("the console has stopped in order")
        for lines in watches:
            rest = lines.read()
            assert (b"event: dropped\n" in rest, b"this console stops" in rest) == (True, True)


def test_an_address_that_is_taken_is_one_message(settings):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NamesrvError, match=rf"cannot listen at 127.0.0.1:{port} .*`ss -ltnp 'sport = :{port}'`"):
            ConsoleServer(settings(console__port=port))
