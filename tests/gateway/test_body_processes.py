"""Processes that read large bodies: what comes back from them, and how they end."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import active_children

import psutil
import pytest
from tenacity import Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from namesrv_stream.gateway import body_processes
from namesrv_stream.gateway.body_processes import BodyProcesses, ReadingOverdueError, ReadingProcessLostError
from namesrv_stream.wire.frame import LargeBody
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.wire_errors import BadRequestError, Crc32MismatchError
from namesrv_stream.wire.write_requests import operator_command, register_broker

MIB = 1024 * 1024
FIELDS = {"brokerName": "b", "brokerAddr": "10.0.0.7:1", "clusterName": "c", "brokerId": "0", "haServerAddr": ""}


@pytest.fixture
def processes():
    opened = BodyProcesses()
    yield opened
    opened.close()


def test_work_runs_in_another_process_that_gives_way(processes):
    pid = processes.run(os.getpid)
    assert pid != os.getpid()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert processes.run(partial(os.getpriority, os.PRIO_PROCESS, 0)) == min(own + 5, 19)


def test_an_error_comes_back_with_its_kind_its_facts_and_its_remark(processes):
    command = RemotingCommand(code=103, ext_fields=FIELDS | {"bodyCrc32": "7"}, body=b"{}")
    with pytest.raises(BadRequestError) as here:
        register_broker(command)
    with pytest.raises(Crc32MismatchError) as there:
        processes.run(partial(register_broker, command))
    assert (str(there.value), vars(there.value)) == (str(here.value), vars(here.value))


def test_an_error_of_ours_says_where_it_was(processes):
    with pytest.raises(RuntimeError, match=r"ZeroDivisionError in another process:\n(.*\n)*.*in _outcome"):
        processes.run(partial(divmod, 1, 0))


def test_a_refused_body_is_freed_at_once(processes):
    """Its error's traceback would keep it until a garbage collection, which holds lookups up."""
    body = LargeBody()
    body.append(b"{}")
    gc.disable()
    try:
        with suppress(Crc32MismatchError):
            command = RemotingCommand(code=103, ext_fields=FIELDS | {"bodyCrc32": "7"}, body=body)
            processes.run(partial(register_broker, command))
            pytest.fail("the checksum is wrong")
        freed = weakref.ref(body)
        del body, command
        assert freed() is None
    finally:
        gc.enable()


def test_after_a_process_was_ended_the_next_body_is_read_by_a_new_one(processes):
    first = processes.run(os.getpid)
    with pytest.raises(ReadingProcessLostError):
        processes.run(partial(signal.raise_signal, signal.SIGKILL))
    assert processes.run(os.getpid) not in (first, os.getpid())
    assert processes.run(partial(operator_command, RemotingCommand(code=318, body=b"a=b"))).properties == {"a": "b"}


@pytest.mark.parametrize("sent_bytes", [0, 16 * MIB])
def test_a_process_that_takes_longer_than_the_limit_is_ended_and_the_next_body_is_read_by_a_new_one(
    processes, sent_bytes
):
    """A stopped process neither answers nor, if the body is large, takes it."""
    body = LargeBody()
    body.append(bytes(sent_bytes))
    first = psutil.Process(processes.run(os.getpid))
    processes.limit_s = 0.2
    first.suspend()
    with pytest.raises(ReadingOverdueError, match=r"not read within 0\.2 s.* try again later") as overdue:
        processes.run(partial(len, body))
    assert overdue.value.limit_s == 0.2
    until(lambda: has_ended(first.pid))
    processes.limit_s = 30
    assert processes.run(partial(len, body)) == sent_bytes
    assert processes.run(os.getpid) != first.pid


def test_work_that_waits_without_end_is_ended_at_the_limit(processes):
    before = set(active_children())
    processes.run(os.getpid)
    (process,) = set(active_children()) - before
    processes.limit_s = 0.2
    with pytest.raises(ReadingOverdueError):
        processes.run(signal.pause)
    process.join(30)
    assert process.exitcode == -signal.SIGKILL


def test_an_idle_process_has_no_limit(processes):
    pid = processes.run(os.getpid)
    processes.limit_s = 5
    assert processes.run(os.getpid) == pid
    until(lambda: not any(isinstance(each, threading.Timer) for each in threading.enumerate()))
    assert processes.run(os.getpid) == pid


def test_a_signal_for_the_gateway_ends_no_reading(processes):
    pid = processes.run(os.getpid)
    for each in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, each)
        assert processes.run(os.getpid) == pid


def test_a_process_that_was_ended_while_idle_costs_no_request(processes):
    first = psutil.Process(processes.run(os.getpid))
    first.kill()
    until(lambda: has_ended(first.pid))
    assert processes.run(os.getpid) != first.pid


def test_a_process_that_cannot_start_is_an_error_after_which_the_peer_tries_again(processes, monkeypatch):
    def no_room(*_):
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(body_processes, "_ReadingProcess", no_room)
    with pytest.raises(ReadingProcessLostError):
        processes.run(os.getpid)


def test_a_process_that_reads_while_all_are_ended_ends_after_it():
    opened = BodyProcesses()
    pid = opened.run(os.getpid)
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(opened.run, partial(time.sleep, 2))
        until(opened._idle.empty)  # noqa: SLF001 - the moment after which the process is busy
        opened.close()
        reading.result(30)
    until(lambda: has_ended(pid))


PROGRAM = """
import os, sys, time
from namesrv_stream.gateway.body_processes import BodyProcesses
processes = BodyProcesses()
print(processes.run(os.getpid), flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize(("is_killed", "seconds"), [(True, "600"), (False, "0")])
def test_a_process_ends_with_the_gateway_also_if_nobody_closes_it(is_killed, seconds):
    with subprocess.Popen([sys.executable, "-c", PROGRAM, seconds], stdout=subprocess.PIPE) as gateway:
        child = int(gateway.stdout.readline())
        if is_killed:
            assert psutil.Process(child).ppid() == gateway.pid
            gateway.kill()
        try:
            gateway.wait(30)
        finally:
            gateway.kill()
    until(lambda: has_ended(child))


def has_ended(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def until(condition):
    Retrying(stop=stop_after_delay(30), wait=wait_fixed(0.01), retry=retry_if_not_result(bool))(condition)
