"""A job whose workers hang gives the registry up and ends, and a standby goes on.

`make chaos` and tests/system/test_chaos.py have a JVM that hangs; tests/job/test_hang_watch.py has what is found when.
"""

import contextlib
import signal
import sys

import psutil
import pytest

from namesrv_stream.tools.local.process import OwnedProcess
from tests.system.heartbeats import Heartbeats, Onlooker, address, assert_told_once, registration, shown, until

pytestmark = [pytest.mark.system, pytest.mark.full]
LONG_LEASE_MS = 1_800_000


@pytest.fixture
def heartbeats(kafka, topic, tmp_path):
    log = Heartbeats(kafka, topic, tmp_path, jobTicker="true")
    yield log
    log.close()


@pytest.fixture
def start(heartbeats, tmp_path):
    """Starts a job in a process of its own, with its log, and kills it with all its children in the end."""
    started = []
    settings = tmp_path / "namesrv.properties"
    settings.write_text("".join(f"{key}={text}\n" for key, text in heartbeats.options.items()))

    def run(*options):
        log = tmp_path / f"job-{len(started)}.log"
        command = [sys.executable, "-m", "tests.system.hanging_job", settings, *options]
        started.append(OwnedProcess(command, log))
        return started[-1], log

    yield run
    for process in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        process.kill()


def say_and_await(heartbeats, *numbers):
    """Register the brokers and wait until the tables have them."""
    heartbeats.say(*(registration(number, heartbeat_timeout_millis=LONG_LEASE_MS) for number in numbers))
    until(lambda: heartbeats.live() == [address(number) for number in numbers])


def test_a_standby_takes_over_from_a_job_whose_workers_hang_while_the_log_goes_on(heartbeats, start):
    active, log = start()
    say_and_await(heartbeats, 1)
    standby, log_of_standby = start("--standby")
    until(lambda: "standby: waits while another job" in log_of_standby.read_text())
    [java] = [each for each in psutil.Process(active.pid).children(recursive=True) if each.name() == "java"]
    workers = java.children(recursive=True)
    assert workers
    with Onlooker(heartbeats.root) as onlooker:
        for worker in workers:
            worker.send_signal(signal.SIGSTOP)
        try:
            until(lambda: active.exit_code is not None)
        finally:
            for worker in workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.send_signal(signal.SIGCONT)
        assert active.exit_code == 1
        assert "a micro-batch has made no step for 60 s" in log.read_text().splitlines()[-1]
        say_and_await(heartbeats, 1, 2, 3)
        states = heartbeats.states()
    for view in onlooker.views.values():
        assert shown(view.routes) == states[view.snapshot.offsets.get(0, 0)], view.snapshot
    assert_told_once(heartbeats)
    assert standby.exit_code is None
