"""A server in a process of its own: started, waited for, stopped, killed or paused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tenacity import RetryError, Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local.process import OwnedProcess


class ServerNotStartedError(NamesrvError):
    """A server ended, or did not answer within the limit; its output is in `log`."""

    def __init__(self, server: str, what: str, log: Path) -> None:
        last_lines = log.read_text(errors="replace").strip().splitlines()[-5:] if log.exists() else []
        super().__init__("\n".join([f"{server} {what}; the end of {log}:", *last_lines]))
        self.log = log


class OwnedServer(ABC):
    """A server that runs within the `with` as a context manager. It may be started again after `stop` and `kill`."""

    name: str
    """The name of the server in messages."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: OwnedProcess | None = None

    @abstractmethod
    def start(self) -> Self:
        """Start the server and return when it answers."""

    @property
    def pid(self) -> int | None:
        """The process id, None if the server does not run."""
        return self._process.pid if self._process else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a server that has ended by itself or was killed by others; None otherwise."""
        return self._process.exit_code if self._process else None

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
        assert self._process is not None, "it runs"
        self._process.pause()
        try:
            yield
        finally:
            self._process.resume()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _run(self, command: Sequence[str | Path], answers: Callable[[], bool], limit_s: float) -> None:
        """Start the process and wait until it answers. After a ServerNotStartedError no process runs."""
        self._process = process = OwnedProcess(command, self._log)
        until = Retrying(stop=stop_after_delay(limit_s), wait=wait_fixed(0.1), retry=retry_if_not_result(bool))
        try:
            until(lambda: process.exit_code is not None or answers())
            if process.exit_code is not None:
                raise ServerNotStartedError(self.name, f"ended with exit code {process.exit_code}", self._log)
        except RetryError:
            self.kill()
            raise ServerNotStartedError(self.name, f"did not answer within {limit_s:g} s", self._log) from None
        except BaseException:
            self.kill()
            raise
