"""A job whose JVM or whose workers hang gives the registry up and ends, and a standby goes on."""

import contextlib
import signal
import sys
import urllib.error
import urllib.request

import psutil
import pytest

from namesrv_stream.config import as_options
from namesrv_stream.tools.local.ports import HOST, free_ports
from namesrv_stream.tools.local.process import OwnedProcess
from namesrv_stream.tools.local.submission import submission
from tests.system.heartbeats import Heartbeats, Onlooker, address, assert_told_once, eventually, registration, shown

pytestmark = [pytest.mark.system, pytest.mark.full]  # each waits out a hang; tests/job/test_hang_watch.py is quick
LONG_LEASE_MS = 1_800_000


@pytest.fixture
def heartbeats(kafka, topic, tmp_path):
    ports = {"job.metricsPort": str(free_ports(1)), "jobTicker": "true"}
    log = Heartbeats(kafka, topic, tmp_path, **ports)
    yield log
    log.close()


class Jobs:
    """Jobs of one registry in processes of their own, with what they print."""

    def __init__(self, heartbeats, folder):
        self._heartbeats = heartbeats
        self._folder = folder
        self._started = []

    def start(self, *, standby=False):
        settings = self._folder / f"{standby}.properties"
        given = self._heartbeats.options | ({"job.metricsPort": "0"} if standby else {})
        settings.write_text("".join(f"{key}={text}\n" for key, text in given.items()))
        command = [sys.executable, "-m", "tests.system.hanging_job", settings, *(["--standby"] if standby else [])]
        return self._keep(OwnedProcess(command, self._log(standby)))

    def submit(self, *, standby=False):
        given = self._heartbeats.options | {"job.metricsPort": "0"}
        arguments = [*as_options(given), *(["--standby"] if standby else [])]
        command, environment = submission("route_registry", arguments, spark_options={"spark.master": "local[2]"})
        return self._keep(OwnedProcess(command, self._log(standby), environment))

    def _log(self, standby):
        return self._folder / f"job-{standby}.log"

    def _keep(self, process):
        self._started.append(process)
        return process

    def said(self, *, standby=False):
        return self._log(standby).read_text()

    @eventually
    def await_standby(self):
        assert "standby: waits while another job" in self.said(standby=True)

    def kill(self):
        for process in self._started:
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()


@pytest.fixture
def jobs(heartbeats, tmp_path):
    started = Jobs(heartbeats, tmp_path)
    yield started
    started.kill()


def java_of(job):
    """The JVM, which is spark-submit itself or a child."""
    process = psutil.Process(job.pid)
    [java] = [each for each in (process, *process.children(recursive=True)) if each.name() == "java"]
    return java


@eventually
def await_end(job):
    assert job.exit_code is not None
    return job.exit_code


@eventually
def await_answer(heartbeats, page, text):
    try:
        answer = urllib.request.urlopen(f"http://{HOST}:{heartbeats.options['job.metricsPort']}{page}", timeout=5)
    except urllib.error.HTTPError as error:
        answer = error
    assert text in answer.read().decode()


def begin(heartbeats, jobs, start):
    """An active job that has published, and a standby that waits."""
    active = start()
    say_and_await(heartbeats, 1)
    standby = start(standby=True)
    jobs.await_standby()
    return active, standby


def say_and_await(heartbeats, *numbers):
    """Register the brokers and wait until the tables have them."""
    heartbeats.say(*(registration(number, heartbeat_timeout_millis=LONG_LEASE_MS) for number in numbers))
    await_live(heartbeats, *numbers)


@eventually
def await_live(heartbeats, *numbers):
    assert heartbeats.live() == [address(number) for number in numbers]


def assert_standby_goes_on(heartbeats, onlooker):
    say_and_await(heartbeats, 1, 2, 3)
    states = heartbeats.states()
    for view in onlooker.views.values():
        assert shown(view.routes) == states[view.snapshot.offsets.get(0, 0)], view.snapshot
    assert_told_once(heartbeats)


def test_a_standby_takes_over_from_a_job_whose_jvm_hangs_and_that_job_ends(heartbeats, jobs):
    active, standby = begin(heartbeats, jobs, jobs.start)
    java = java_of(active)
    with Onlooker(heartbeats.root) as onlooker:
        java.send_signal(signal.SIGSTOP)
        await_answer(heartbeats, "/readyz", "the JVM has not answered for")
        assert active.exit_code is None
        java.send_signal(signal.SIGCONT)
        await_answer(heartbeats, "/readyz", "ok")  # a JVM that answers again in time goes on
        say_and_await(heartbeats, 1, 2)

        java.send_signal(signal.SIGSTOP)
        assert await_end(active) == 1
        assert "the JVM of this job has not answered for 40 s" in jobs.said().splitlines()[-1]
        with contextlib.suppress(psutil.NoSuchProcess):
            java.send_signal(signal.SIGCONT)
        assert_standby_goes_on(heartbeats, onlooker)
    assert standby.exit_code is None


def test_a_standby_takes_over_from_a_job_whose_workers_hang_while_the_log_goes_on(heartbeats, jobs):
    active, standby = begin(heartbeats, jobs, jobs.start)
    workers = java_of(active).children(recursive=True)
    assert workers
    with Onlooker(heartbeats.root) as onlooker:
        for worker in workers:
            worker.send_signal(signal.SIGSTOP)
        try:
            assert await_end(active) == 1
        finally:
            for worker in workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.send_signal(signal.SIGCONT)
        assert "the query has not moved for 60 s and the log has" in jobs.said().splitlines()[-1]
        assert_standby_goes_on(heartbeats, onlooker)
    assert standby.exit_code is None


def test_spark_submit_ends_and_says_why_if_its_jvm_hangs(heartbeats, jobs):
    """spark-submit is the JVM: it passes on what the job prints, and is what a supervisor waits for."""
    active, _standby = begin(heartbeats, jobs, jobs.submit)
    with Onlooker(heartbeats.root) as onlooker:
        java_of(active).send_signal(signal.SIGSTOP)
        assert await_end(active) == -signal.SIGKILL
        assert "the JVM of this job has not answered for 60 s" in jobs.said()
        assert_standby_goes_on(heartbeats, onlooker)
