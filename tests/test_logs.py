import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from namesrv_stream.errors import StorageError
from namesrv_stream.reporting import logs

SAY = """
for name in ("namesrv_stream.job", "kafka.client", "librdkafka", "py4j"):
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        logging.getLogger(name).log(level, "%s %s", name, logging.getLevelName(level))
"""


def ran(program):
    """Return a separate process that has ended: a Python which sets up its log."""
    program = f"import logging\nfrom namesrv_stream.reporting.logs import set_up_logging\n{program}"
    command = [sys.executable, "-X", "utf8", "-c", program]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True)


def said_in_json(say):
    """The objects that a process logs with log.format=json."""
    return list(map(json.loads, ran(f"set_up_logging(log_format='json')\n{say}").stderr.splitlines()))


@pytest.mark.parametrize("set_up", ["set_up_logging(10)", "set_up_logging(10); set_up_logging(); set_up_logging(30)"])
def test_debug_shows_the_libraries_and_stays_but_not_each_call_into_the_jvm(set_up):
    found = {" ".join(line.split()[-2:]) for line in ran(set_up + SAY).stderr.splitlines()}
    assert {"namesrv_stream.job DEBUG", "kafka.client DEBUG", "py4j INFO"} <= found
    assert "py4j DEBUG" not in found


def test_a_call_to_a_jvm_that_dies_logs_no_traceback_beside_the_error_that_is_raised():
    done = ran("""
import socket, threading
from py4j.java_gateway import GatewayClient, GatewayParameters
set_up_logging()
jvm = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: jvm.accept()[0].close(), daemon=True).start()
GatewayClient(gateway_parameters=GatewayParameters(port=jvm.getsockname()[1])).send_command("c", retry=False)
""")
    assert done.stderr == ""


def test_log_goes_to_what_stands_for_standard_error_at_that_moment():
    done = ran("""
import io, sys
set_up_logging()
sys.stderr = display = io.StringIO()
logging.getLogger("namesrv_stream").info("above the display")
sys.stderr = sys.__stderr__
print(display.getvalue())
""")
    assert "INFO above the display" in done.stdout
    assert done.stderr == ""


def test_what_peers_send_neither_begins_a_line_nor_steers_a_terminal():
    sent = r"a\x1b[2J\n2026-01-01 WARNING forged \u202e\u4e3b"
    (line,) = ran(f"set_up_logging(); logging.warning('peer %s', '{sent}')").stderr.splitlines()
    assert line.endswith(r"WARNING peer a\x1b[2J\n2026-01-01 WARNING forged \u202e主")


def test_a_line_in_json_has_the_facts_that_are_known_as_fields():
    facts = {"epoch": 7, "offset": None, "address": "10.0.0.1:10911"}
    (line,) = said_in_json(f"logging.getLogger('namesrv_stream.job').warning('%s left', 'b 0', extra={facts})")
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "WARNING", "logger": "namesrv_stream.job", "message": "b 0 left", "epoch": 7,
        "address": "10.0.0.1:10911",
    }  # fmt: skip


def test_a_traceback_and_what_peers_send_stay_within_their_line_of_json():
    (line,) = said_in_json(
        "try: 1 / 0\nexcept Exception: logging.exception('peer %s', 'a\\x1b[2J\\n{\"level\": \"forged\"} \\u202e')"
    )
    assert line["message"] == 'peer a\x1b[2J\n{"level": "forged"} \u202e'
    assert line["traceback"].endswith("ZeroDivisionError: division by zero")


def test_a_kind_of_problem_is_due_once_a_minute_however_its_text_changes(monkeypatch):
    now_s = iter([0.0, 0.3, 1.0, 59.9, 60.0])
    # The module's own name alone: threads that earlier tests have left ask the real clock.
    monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    kinds = logs.Kinds()
    errors = [StorageError("s3://b", f"403, request {n}, took {n}.{n}ms") for n in range(3)]
    due = [kinds.is_due(error) for error in (errors[0], errors[1], OSError("another kind"), errors[2], errors[2])]
    assert due == [True, False, True, False, True]
