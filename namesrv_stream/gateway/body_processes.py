"""Processes in which large bodies are read.

Decoding a body holds the interpreter's lock all the time, and so stops lookups, even in a thread. The pool of
concurrent.futures would hold it too, to copy the body: 5 ms for 9 MiB. Here a body is written to the process as it is.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from queue import Empty, SimpleQueue
from threading import Timer
from typing import Any, TypeVar, cast

from namesrv_stream.errors import NamesrvError

T = TypeVar("T")

READ_LIMIT_S = 30.0
"""Limit of reading one body. A broker waits 24 s for the answer to its registration (B2), so nobody waits for more."""

_NICENESS = 5
"""Lookups come first where cores are scarce."""

_SPAWN = get_context("spawn")
"""A forked process would have the locks of this one's threads in whatever state they were."""


class ReadingProcessLostError(NamesrvError):
    """A process that read a large body was ended, or none could be started; answered SYSTEM_BUSY."""

    def __init__(self, problem: str = "") -> None:
        super().__init__(
            problem
            or "the process that read a large body was ended or did not start, for lack of memory perhaps: try again "
            "later, and give the gateway more memory if this repeats"
        )


class ReadingOverdueError(ReadingProcessLostError):
    """A large body was not read within the limit, so the process that read it was ended; answered SYSTEM_BUSY."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"a large body was not read within {limit_s:g} s, so the process that read it was ended: try again later, "
            "and set enableSplitRegistration on the broker if this repeats"
        )
        self.limit_s = limit_s


class BodyProcesses:
    """Processes for large bodies, as many as work is run at a time. They end with this process at the latest.

    `limit_s`: the time that the work for one body may take, with the start of its process. A process that takes longer
    is ended, and the next body is read by a new one.
    """

    def __init__(self, limit_s: float = READ_LIMIT_S) -> None:
        self.limit_s = limit_s
        self._idle: SimpleQueue[_ReadingProcess] = SimpleQueue()
        self._is_closed = False
        Finalize(self, _end_all, (self._idle,), exitpriority=1)  # multiprocessing's own exit waits for them without end

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` in one of the processes, and wait for it: call this in a thread.

        `work` and its outcome are pickled, with a body in a `LargeBody` left out. Raises what `work` raises,
        ReadingProcessLostError, and ReadingOverdueError beyond `limit_s`.
        """
        try:
            process = self._idle_one() or _ReadingProcess()
            outcome, error = process.run(work, self.limit_s)
        except (EOFError, OSError):
            raise ReadingProcessLostError from None
        self._idle.put(process)
        if self._is_closed:
            self.close()
        try:
            if error is not None:
                raise error
            return cast(T, outcome)
        finally:
            del error  # its traceback has this frame, so the body would stay until the next garbage collection

    def close(self) -> None:
        """End the processes, a busy one after what it is reading now, or at its limit."""
        self._is_closed = True
        _end_all(self._idle)

    def _idle_one(self) -> _ReadingProcess | None:
        with suppress(Empty):
            while True:
                process = self._idle.get_nowait()
                if process.is_alive:
                    return process
        return None


def _end_all(idle: SimpleQueue[_ReadingProcess]) -> None:
    with suppress(Empty):
        while True:
            idle.get_nowait().end()


class _ReadingProcess:
    def __init__(self) -> None:
        self._connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_read_bodies, args=(theirs,), name="large-body", daemon=True)
        self._is_overdue = False
        with theirs:
            self._process.start()

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def run(self, work: Callable[[], T], limit_s: float) -> tuple[Any, Exception | None]:
        """Return what `work` returns, or the error it raises.

        Raises EOFError or OSError if the process has ended, ReadingOverdueError if it was ended at the limit.
        """
        bodies: list[pickle.PickleBuffer] = []
        head = pickle.dumps(work, 5, buffer_callback=bodies.append)
        with self._ended_after(limit_s):
            self._connection.send((head, len(bodies)))
            for body in bodies:
                self._connection.send_bytes(body.raw())
            return self._connection.recv()  # type: ignore[no-any-return]

    @contextmanager
    def _ended_after(self, limit_s: float) -> Iterator[None]:
        """Kill the process if the `with` block takes longer, which ends a wait for the process too.

        A process that reads nothing holds the gateway in a write, for which a connection has no limit of its own.
        """
        timer = Timer(limit_s, self._kill_overdue)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # it may have begun to kill
            if self._is_overdue:
                raise ReadingOverdueError(limit_s) from None

    def _kill_overdue(self) -> None:
        self._is_overdue = True
        self._process.kill()

    def end(self) -> None:
        self._connection.close()


def _read_bodies(connection: Connection) -> None:
    """Do the work that comes, until the gateway closes the connection or is gone."""
    _prepare()
    with suppress(EOFError, OSError):
        while True:
            head, bodies = connection.recv()
            connection.send(_outcome(head, [connection.recv_bytes() for _ in range(bodies)]))


def _prepare() -> None:
    """Give way to lookups, and leave signals to the gateway's process."""
    os.nice(_NICENESS)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)


def _outcome(head: bytes, bodies: list[bytes]) -> tuple[Any, Exception | None]:
    try:
        return pickle.loads(head, buffers=bodies)(), None
    except NamesrvError as error:
        return None, error
    except Exception as error:  # one of ours, of which any kind can be pickled as text alone
        return None, RuntimeError(f"{type(error).__name__} in another process:\n{traceback.format_exc()}")
