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
from namesrv_stream.local.process import OwnedProcess


class ServerNotStartedError(NamesrvError):
    """A server ended, or did not answer within the limit; `log` has all that it said."""

    def __init__(self, server: str, what: str, log: Path) -> None:
        said = log.read_text(errors="replace").strip().splitlines()[-5:] if log.exists() else []
        super().__init__("\n".join([f"{server} {what}; the end of {log}:", *said]))
        self.log = log


class OwnedServer(ABC):
    """As a context manager it runs within the `with`. It may be started again after `stop` and `kill`."""

    name: str
    """What messages call it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: OwnedProcess | None = None

    @abstractmethod
    def start(self) -> Self:
        """Starts it and returns when it answers."""

    @property
    def pid(self) -> int | None:
        """The process id, None when it is not running."""
        return self._process.pid if self._process else None

    def stop(self) -> None:
        """An orderly end (SIGTERM). Nothing when it is not running."""
        if self._process:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """An end as by a crash (SIGKILL)."""
        if self._process:
            self._process.kill()
            self._process = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within the `with` it keeps its connections and answers nothing."""
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
        """Starts the process and waits until it answers. Raises ServerNotStartedError, and nothing runs then."""
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
