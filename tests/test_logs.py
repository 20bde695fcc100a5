"""The log: its lines and levels, and that no peer and no number of peers can fill it."""

import json
import logging
import subprocess
import sys
from types import SimpleNamespace

import pytest

from namesrv_stream.errors import StorageError
from namesrv_stream.reporting import logs
from namesrv_stream.reporting.logs import LINES_OF_A_HOST, LINES_OF_ALL, PeerLog

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
    kinds = logs.OncePerMinute()
    errors = [StorageError("s3://b", f"403, request {n}, took {n}.{n}ms") for n in range(3)]
    due = [kinds.is_due(error) for error in (errors[0], errors[1], OSError("another kind"), errors[2], errors[2])]
    assert due == [True, False, True, False, True]


HISTORY = "`namesrv-stream history` lists brokers that came online or went offline"


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO)
    with caplog.filtering(logging.Filter("peers")):  # a Kafka client of another test may still be ending
        yield PeerLog(logging.getLogger("peers"))


def test_a_host_has_ten_lines_in_ten_seconds_and_a_count_of_the_rest(log, caplog):
    for number in range(25):
        log.line("10.0.0.1", number / 10, logging.INFO, f"refused {number}")
    log.sum_up(9.9)
    assert caplog.messages == [f"refused {number}" for number in range(LINES_OF_A_HOST)]
    log.sum_up(10)
    assert (
        caplog.messages[-1]
        == "10.0.0.1: 15 more lines about its connections, requests and brokers in 10 s are left out; " + HISTORY
    )
    log.line("10.0.0.1", 10, logging.INFO, "refused again")
    log.sum_up(30)
    assert caplog.messages[-1] == "refused again"


def test_all_hosts_have_two_hundred_lines_in_ten_seconds_and_eleven_for_the_rest(log, caplog):
    for number in range(5_000):
        for _ in range(2):
            log.line(f"10.0.{number >> 8}.{number & 255}", 0, logging.INFO, "refused")
    assert caplog.messages == ["refused"] * LINES_OF_ALL
    log.sum_up(10)
    summed_up = caplog.messages[LINES_OF_ALL:]
    assert len(summed_up) == 11
    assert summed_up[-1] == "4890 other addresses: 9780 more such lines in 10 s are left out"
    log.line("10.0.0.1", 10, logging.INFO, "refused again")
    assert caplog.messages[-1] == "refused again"


def test_brokers_that_come_and_go_take_no_warnings_place_nor_do_lines_that_are_not_logged(log, caplog):
    for number in range(20):
        for _ in range(LINES_OF_A_HOST):
            log.line(f"10.0.0.{number}", 0, logging.INFO, "registers", "10.0.0.9:10911")
    log.line("10.0.1.1", 0, logging.WARNING, "refused")
    assert caplog.messages[-1] == "refused"
    log.line("10.0.1.1", 0, logging.INFO, "registers")
    log.sum_up(10)
    assert [caplog.records[-1].levelno, caplog.messages[-1].partition(" more")[0]] == [logging.INFO, "10.0.1.1: 1"]
    caplog.set_level(logging.WARNING)
    for _ in range(20):
        log.line("10.0.2.1", 20, logging.INFO, "registers")
    caplog.clear()
    log.sum_up(40)
    assert caplog.messages == []
