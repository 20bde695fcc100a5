"""Processes that decode large bodies.

In the gateway's own process decoding would hold the interpreter's lock and stop lookups.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import TypeVar

from namesrv_stream.gateway.kafka_link import GatewayBusyError

T = TypeVar("T")

DECODE_LIMIT_S = 30
"""Limit of decoding one body. A broker waits 24 s for the answer to its registration (B2), and nobody waits longer."""

_NICENESS = 5
"""Niceness of these processes, so that lookups come first if cores are scarce."""

_GC_THRESHOLD = 100_000
"""Objects after which the garbage collector runs, so that it does once for some bodies of 10,000 topics: with Python's
700 it takes a quarter of their decoding."""


class BodyProcesses:
    """A pool of processes, which is made for the first large body, and again after one of its processes was lost.

    `limit_s`: a process that works on one body for longer ends itself. All processes end with this one at the latest.
    """

    def __init__(self, limit_s: int = DECODE_LIMIT_S, *, at_a_time: int = 2) -> None:
        self._limit_s, self._at_a_time = limit_s, at_a_time
        self._pool: ProcessPoolExecutor | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work`, which is pickled with its outcome, in one of the processes.

        Raises what `work` raises, and GatewayBusyError if its process is lost.
        """
        try:
            return await asyncio.wrap_future(self._submit(partial(_within_limit, work, self._limit_s)))
        except (BrokenProcessPool, OSError):
            raise GatewayBusyError(
                f"the process of a large body did not start, took over {self._limit_s} s or was ended, for lack of "
                "memory perhaps: try again later. If this repeats, set enableSplitRegistration on the broker, and give "
                "the gateway more memory"
            ) from None

    def close(self) -> None:
        """End the processes once they have decoded their present bodies."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        try:
            if self._pool is not None:
                return self._pool.submit(work)
        except BrokenProcessPool:
            pass
        # Spawned: a forked process would inherit locks that threads of this one hold, and nobody would release them.
        self._pool = ProcessPoolExecutor(self._at_a_time, get_context("spawn"), _prepare)
        return self._pool.submit(work)


def _prepare() -> None:
    """Give way to lookups, ignore Ctrl-C, and end with the gateway: without this a pool outlives a killed gateway."""
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(_GC_THRESHOLD)
    Thread(target=_end_with_gateway, daemon=True).start()


def _end_with_gateway() -> None:
    if (gateway := parent_process()) is not None:
        gateway.join()
        os._exit(1)


def _within_limit(work: Callable[[], T], limit_s: int) -> T:
    """Run `work`. An alarm ends this process after `limit_s`, whatever it does."""
    signal.alarm(limit_s)
    try:
        return work()
    finally:
        signal.alarm(0)
