"""Processes that read large bodies: what comes back from them, and how they end."""

import gc
import os
import signal
import subprocess
import sys
import weakref
from contextlib import suppress
from functools import partial

import psutil
import pytest
from tenacity import Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from namesrv_stream.gateway.body_processes import BodyProcesses, ReadingProcessLostError
from namesrv_stream.wire.command import RemotingCommand
from namesrv_stream.wire.errors import BadRequestError, Crc32MismatchError
from namesrv_stream.wire.frame import LargeBody
from namesrv_stream.wire.requests import operator_command, register_broker

FIELDS = {"brokerName": "b", "brokerAddr": "10.0.0.7:1", "clusterName": "c", "brokerId": "0", "haServerAddr": ""}


@pytest.fixture
def processes():
    opened = BodyProcesses()
    yield opened
    opened.close()


def test_work_runs_in_another_process_that_gives_way(processes):
    pid = processes.run(os.getpid)
    assert pid != os.getpid()
    assert processes.run(partial(os.getpriority, os.PRIO_PROCESS, 0)) > os.getpriority(os.PRIO_PROCESS, 0)


def test_an_error_comes_back_with_its_kind_its_facts_and_its_remark(processes):
    command = RemotingCommand(code=103, ext_fields=FIELDS | {"bodyCrc32": "7"}, body=b"{}")
    with pytest.raises(BadRequestError) as here:
        register_broker(command)
    with pytest.raises(Crc32MismatchError) as there:
        processes.run(partial(register_broker, command))
    assert (str(there.value), vars(there.value)) == (str(here.value), vars(here.value))


def test_an_error_of_ours_says_where_it_was(processes):
    with pytest.raises(ZeroDivisionError) as raised:
        processes.run(partial(divmod, 1, 0))
    assert "in _outcome" in "".join(raised.value.__notes__)


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


def test_a_signal_for_the_gateway_ends_no_reading(processes):
    pid = processes.run(os.getpid)
    for each in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, each)
        assert processes.run(os.getpid) == pid


def test_a_process_ends_with_the_gateway_even_if_that_is_killed():
    program = (
        "import os, sys, time\n"
        "from namesrv_stream.gateway.body_processes import BodyProcesses\n"
        "print(BodyProcesses().run(os.getpid), flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as gateway:
        child = psutil.Process(int(gateway.stdout.readline()))
        assert child.ppid() == gateway.pid
        gateway.kill()
    has_ended = Retrying(stop=stop_after_delay(30), wait=wait_fixed(0.05), retry=retry_if_not_result(bool))
    has_ended(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
