"""Processes that decode large bodies: what comes back from them, and how they end."""

import asyncio
import os
import signal
import subprocess
import sys
from functools import partial

import psutil
import pytest

from namesrv_stream.errors import BadRequestError
from namesrv_stream.gateway.kafka_link import GatewayBusyError
from namesrv_stream.gateway.sending import BodyProcesses
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.write_requests import operator_command, register_broker
from tests.waiting import until

FIELDS = {"brokerName": "b", "brokerAddr": "10.0.0.7:1", "clusterName": "c", "brokerId": "0", "haServerAddr": ""}
DAMAGED = RemotingCommand(code=103, ext_fields=FIELDS | {"bodyCrc32": "7"}, body=b"{}")


@pytest.fixture(scope="module")
def run():
    """Runs work in processes of a pool, one after the other; those of a lost one are made anew."""
    pools = {}

    def running(*works, limit_s=30, at_a_time=2):
        processes = pools.setdefault((limit_s, at_a_time), BodyProcesses(limit_s, at_a_time=at_a_time))

        async def in_loop():
            return [await each(processes) if callable(each) else each for each in works]

        return asyncio.run(in_loop())

    yield running
    for each in pools.values():
        each.close()


def work(call, *args):
    return lambda processes: processes.run(partial(call, *args))


def lost(call, *args):
    """Work whose process is lost."""

    async def losing(processes):
        with pytest.raises(GatewayBusyError, match="Try again later"):
            await processes.run(partial(call, *args))

    return losing


def test_work_runs_in_another_process_that_gives_way(run):
    pid, niceness = run(work(os.getpid), work(os.getpriority, os.PRIO_PROCESS, 0))
    assert pid != os.getpid()
    assert niceness == min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19)


def test_an_error_comes_back_with_its_kind_its_facts_and_its_remark(run):
    with pytest.raises(BadRequestError) as here:
        register_broker(DAMAGED)
    with pytest.raises(BadRequestError) as there:
        run(work(register_broker, DAMAGED))
    assert (str(there.value), vars(there.value)) == (str(here.value), vars(here.value))


@pytest.mark.parametrize(("loss", "limit_s"), [((os._exit, 1), 30), ((signal.pause,), 1)], ids=["ended", "too long"])
def test_after_a_process_was_ended_or_took_longer_than_the_limit_the_next_body_is_decoded_by_a_new_one(
    run, loss, limit_s
):
    decode = work(operator_command, RemotingCommand(code=318, body=b"a=b"))
    first, _, second, decoded = run(work(os.getpid), lost(*loss), work(os.getpid), decode, limit_s=limit_s)
    assert second not in (first, os.getpid())
    assert decoded.properties == {"a": "b"}
    until(lambda: has_ended(first))


def test_ctrl_c_ends_no_decoding(run):
    async def interrupted(processes):
        pid = await processes.run(os.getpid)
        os.kill(pid, signal.SIGINT)
        return pid

    before, after = run(interrupted, work(os.getpid), at_a_time=1)
    assert before == after


PROGRAM = """
import asyncio, os, sys, time
from namesrv_stream.gateway.sending import BodyProcesses
if __name__ == "__main__":
    print(asyncio.run(BodyProcesses().run(os.getpid)), flush=True)
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
