"""Child processes that never outlive this one, servers in such processes, their free ports and data folders."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Self

import psutil
from tenacity import RetryError, Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.texts import port_owner_command

HOST = "127.0.0.1"
_FOR_SERVERS = range(20_000, 30_000)
"""Ports below those that a kernel gives to outgoing connections by default: from 32,768 on Linux, 49,152 on macOS."""
_in_turn = islice(cycle(_FOR_SERVERS), random.randrange(len(_FOR_SERVERS)), None)
"""The ports in turn, so that none repeats soon. Each process begins at a random one."""

MARKER = ".made-anew-by-namesrv-stream"
"""A file that marks a folder of this command. Only there the command may remove the folders that it makes anew."""
_LOCK = ".in-use"

MAX_LOG_BYTES = 10 * 1024 * 1024
"""Limit of the log of a process that may run for weeks. As much again is kept in a file beside it."""

# Reads until this process has ended, for whatever reason, and only then stops the child. CONT, because a paused
# process handles TERM only when it runs again.
_WATCH = 'read -r _; kill -TERM "$1"; kill -CONT "$1"'


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports at which no server listens.

    They stay free until a server starts: by default the kernel gives them to no outgoing connection, and no process
    that asks here gets them while this one runs.
    """
    while True:
        ports = [next(_in_turn) for _ in range(count)]
        if ports[-1] - ports[0] == count - 1 and all(_is_free(port) and _reserve(port) for port in ports):
            return ports[0]


def _reserve(port: int) -> bool:
    """Reserve a port until this process ends, by the UDP port of its number. False: it is reserved already."""
    with socket.socket(type=socket.SOCK_DGRAM) as sign:
        try:
            sign.bind((HOST, port))
        except OSError:
            return False
        sign.detach()
    return True


def check_free(port: int, server: str) -> None:
    """Raise NamesrvError if a process listens at the port; `server` names the server that needs it."""
    if not _is_free(port):
        raise NamesrvError(
            f"port {port} on {HOST}, for {server}, is already in use. "
            f"Find the process with {port_owner_command(port)} and stop it, or choose another port."
        )


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def listens(port: int) -> bool:
    """Return whether a server accepts connections at the port."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def owned_folder(folder: Path, *, made_anew: Collection[str] = ()) -> Iterator[Path]:
    """Own the folder within the `with`; it is created if it is missing.

    Raises NamesrvError if another process owns it. Folders in it with the names `made_anew` are removed first. That
    needs a folder that was empty when it was first owned in this way. For any other folder it raises NamesrvError and
    removes nothing.
    """
    if made_anew:
        _check_ours(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read() or "unknown"
            raise NamesrvError(
                f"folder {folder} is in use by process {holder}. Stop it, or give another folder with --data."
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        if made_anew:
            (folder / MARKER).touch()
        for name in made_anew:
            if (folder / name).exists():
                shutil.rmtree(folder / name)
        yield folder


def _check_ours(folder: Path) -> None:
    entries = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    if MARKER not in entries and entries - {_LOCK}:
        raise NamesrvError(
            f"folder {folder} is not empty, and this command did not make it. Nothing in it was removed. Give a new "
            "folder with --data, or remove this one."
        )


def bound_log(log: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
    """Move the content of a log that has grown over the limit into a file beside it, in the place of the former one.

    Its writers need not know: they append. What they write between the copy and the cut, an instant, is lost. So is the
    content if the disk has no room for a copy.
    """
    if not log.exists() or log.stat().st_size <= max_bytes:
        return
    former = former_log(log)
    try:
        shutil.copyfile(log, former)
    except OSError:
        former.unlink(missing_ok=True)
    os.truncate(log, 0)


def former_log(log: Path) -> Path:
    """Return the file that keeps what `bound_log` has taken out of a log."""
    return log.with_name(f"{log.name}.1")


class OwnedProcess:
    """A running child whose output goes to `log`; it is stopped when this process ends, even by SIGKILL.

    The child has a session of its own, so a Ctrl-C at the terminal reaches only this process, which then stops its
    children in the right order.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", str(self._child.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The child's process id, valid also after the child has ended."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The child's exit code, negative for a signal; None while it runs."""
        return self._child.poll()

    def stop(self, limit_s: float = 20) -> None:
        """Ask the child to end (SIGTERM), and kill it if it has not ended within the limit."""
        self._child.terminate()
        try:
            self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
        self._forget()

    def kill(self) -> None:
        """End the child at once (SIGKILL), as a crash would."""
        self._child.kill()
        self._forget()

    def _forget(self) -> None:
        self._watch.kill()  # before another process can get the child's pid
        self._child.wait()
        self._watch.wait()
        if self._watch.stdin is not None:
            self._watch.stdin.close()


class ServerEndedError(NamesrvError):
    """A server has ended, or did not answer within the limit; its output is in `log`."""

    def __init__(self, server: str, what: str, log: Path) -> None:
        texts = (each.read_text(errors="replace").strip() for each in (log, former_log(log)) if each.exists())
        last_lines = next(filter(None, texts), "").splitlines()[-5:]
        super().__init__("\n".join([f"{server} {what}. The last lines of {log}:", *last_lines]))


class OwnedServer:
    """A server that runs within the `with` as a context manager. It may be started again after `stop` and `kill`.

    Each subclass has a `start` that starts the server by `_run` and returns when it answers.
    """

    name: str
    """The name of the server in messages."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: OwnedProcess | None = None

    def start(self) -> Self:
        """Start the server and return when it answers. Raises ServerEndedError."""
        raise NotImplementedError

    @property
    def pid(self) -> int | None:
        """The process id, None if the server does not run."""
        return self._process.pid if self._process else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a server that has ended by itself or was killed by others; None otherwise."""
        return self._process.exit_code if self._process else None

    def check(self) -> None:
        """Raise ServerEndedError if the server has ended by itself or was killed by others. Keep its log bounded."""
        if self.exit_code is not None:
            raise ServerEndedError(self.name, f"ended unexpectedly with exit code {self.exit_code}", self._log)
        bound_log(self._log)

    def stop(self) -> None:
        """End the server in order (SIGTERM). Does nothing if it does not run."""
        if self._process:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL). Does nothing if it does not run."""
        if self._process:
            self._process.kill()
            self._process = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the server within the `with`: it keeps its connections and answers nothing."""
        paused = psutil.Process(self.pid)
        paused.suspend()
        while paused.status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        try:
            yield
        finally:
            paused.resume()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, command: Sequence[str | Path], answers: Callable[[], bool], limit_s: float) -> None:
        """Start the process and wait until it answers. After a ServerEndedError no process runs."""
        self._process = process = OwnedProcess(command, self._log)
        until = Retrying(stop=stop_after_delay(limit_s), wait=wait_fixed(0.1), retry=retry_if_not_result(bool))
        try:
            until(lambda: process.exit_code is not None or answers())
            if process.exit_code is not None:
                raise ServerEndedError(self.name, f"ended with exit code {process.exit_code}", self._log)
        except RetryError:
            self.kill()
            raise ServerEndedError(self.name, f"did not respond within {limit_s:g} s", self._log) from None
        except BaseException:
            self.kill()
            raise
