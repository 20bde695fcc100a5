"""Run a gateway in an event loop of this thread, or in a thread of its own beside other work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.gateway import Gateway

try:
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop  # type: ignore[assignment]

_START_LIMIT_S = 30.0
_STOP_LIMIT_S = 60.0
_WHERE_IT_WAITS = "`py-spy dump` shows what it waits for."


def run_in_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` in a new event loop: uvloop's if it is installed (never on Windows), else asyncio's."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work)


class BackgroundGateway:
    """A gateway that runs in a thread of its own for as long as its `with` block."""

    def __init__(self, settings: NamesrvSettings) -> None:
        self._settings = settings
        self._is_up = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self.gateway: Gateway

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._is_up.wait(_START_LIMIT_S):
            raise NamesrvError(f"the gateway did not start within {_START_LIMIT_S:.0f} s. {_WHERE_IT_WAITS}")
        self.check()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _at: object) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STOP_LIMIT_S)
        if self._thread.is_alive():
            raise NamesrvError(f"the gateway did not stop within {_STOP_LIMIT_S:.0f} s. {_WHERE_IT_WAITS}")
        if error is None:
            self.check()

    def check(self) -> None:
        """Raise the error that has ended the gateway, if there is one."""
        if self._failure is not None:
            raise self._failure

    @property
    def address(self) -> str:
        """The gateway's address, for namesrvAddr of brokers and clients."""
        return f"{self._settings.bind_address}:{self.gateway.port}"

    def _run(self) -> None:
        try:
            run_in_loop(self._serve())
        except BaseException as error:  # `check` raises it in the thread that waits
            self._failure = error
        finally:
            self._is_up.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.gateway = Gateway(self._settings)
        await serve(self.gateway, self._stop, self._is_up.set)


async def serve(gateway: Gateway, stop: asyncio.Event, on_start: Callable[[], None]) -> None:
    """Run the gateway until `stop` is set; call `on_start` once it listens. Raises NamesrvError if it cannot start."""
    await gateway.start()
    on_start()
    try:
        await stop.wait()
    finally:
        await gateway.stop()
