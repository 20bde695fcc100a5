"""The command `namesrv-stream gateway`, RocketMQ's name server in front of the registry; and a gateway in a thread."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import click

from namesrv_stream.config import Invocation, NamesrvSettings, log_notes, printed_settings
from namesrv_stream.config.rocketmq_settings import WITHOUT_EFFECT, RocketmqSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.gateway import Gateway
from namesrv_stream.reporting.logs import set_up_logging

try:
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop  # type: ignore[assignment]

_START_LIMIT_S = 30.0
_STOP_LIMIT_S = 60.0
_WHERE_IT_WAITS = "`py-spy dump` shows what it waits for."

_SWITCH_INTERVAL_S = 0.0005
"""The time for which a thread that reads a large body may keep the event loop waiting.

Python's default is ten times that.
"""

_GC_THRESHOLDS = 700, 10, 100
"""The last one is ten times Python's default. Full collections, 15 to 70 ms each, were half of the longest delays of
lookups while hostile peers came and went."""


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


def _note_setting(context: click.Context, option: click.Parameter, text: str | None) -> None:
    if text is not None:
        given: Invocation = context.obj
        context.obj = replace(given, options={**given.options, option.opts[0].removeprefix("--"): text})


def _with_settings(command: click.Command) -> click.Command:
    """Let a command take each of RocketMQ's settings as `--name value`, as its NameServer does."""
    keys = [str(field.alias) for field in RocketmqSettings.model_fields.values()] + sorted(WITHOUT_EFFECT)
    command.params += [
        click.Option([f"--{key}"], expose_value=False, callback=_note_setting, hidden=True) for key in keys
    ]
    return command


@_with_settings
@click.command("gateway")
@click.option("-p", "--print", "print_only", is_flag=True, help="Print all settings in force and exit.")
@click.pass_obj
def gateway(invocation: Invocation, print_only: bool) -> None:
    """Serve RocketMQ's brokers, clients and mqadmin at listenPort, until SIGTERM or Ctrl-C.

    Each of RocketMQ's settings is also an option: --listenPort 9876. Several gateways may run side by side. While Kafka
    or the job is down, lookups are answered from the last snapshot.
    """
    settings = invocation.settings
    if print_only:
        click.echo(printed_settings(settings), nl=False)
        return
    set_up_logging(log_format=settings.log_format)
    log_notes(settings)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    run_in_loop(_until_signalled(settings))


async def _until_signalled(settings: NamesrvSettings) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    running = Gateway(settings)

    def on_started() -> None:
        gc.set_threshold(*_GC_THRESHOLDS)
        gc.freeze()  # all objects so far are kept, and collecting among them would delay lookups by 50 ms
        click.echo(f"The Name Server boot success: {settings.bind_address}:{running.port}")

    await serve(running, stop, on_started)
