"""Processes in which large bodies are read.

Decoding a body holds the interpreter's lock all the time, and so stops lookups, even in a thread.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import TypeVar

from namesrv_stream.errors import NamesrvError

log = logging.getLogger(__name__)
T = TypeVar("T")

_NICENESS = 5
"""Lookups come first where cores are scarce."""


class ReadingProcessLostError(NamesrvError):
    """A process that read a large body was ended; answered SYSTEM_BUSY."""

    def __init__(self) -> None:
        super().__init__(
            "the process that read a large body was ended, for lack of memory perhaps: try again later, and give the "
            "gateway more memory if this repeats"
        )


class BodyProcesses:
    """At most `at_most` processes. Each starts when it is first needed, and ends with this process or by `close`."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` in one of the processes, and wait for it: call this in a thread.

        `work` and its outcome are pickled. Raises what `work` raises, and ReadingProcessLostError.
        """
        pool = self._opened()
        try:
            return pool.submit(work).result()
        except BrokenProcessPool:
            self._replace(pool)
            raise ReadingProcessLostError from None

    def close(self) -> None:
        """End the processes after what they are reading now."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _opened(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                # A forked process would have the locks of this one's threads in whatever state they were.
                self._pool = ProcessPoolExecutor(self._at_most, get_context("spawn"), initializer=_prepare)
            return self._pool

    def _replace(self, broken: ProcessPoolExecutor) -> None:
        """Have the next body read by new processes."""
        with self._lock:
            if self._pool is broken:
                self._pool = None
        broken.shutdown(wait=False)


def _prepare() -> None:
    """Give way to lookups, leave signals to the gateway's process, and end when that process is gone."""
    os.nice(_NICENESS)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(0)
