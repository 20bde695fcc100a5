"""The command `namesrv-stream gateway`: RocketMQ's name server, in front of the registry."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from dataclasses import replace

import click

from namesrv_stream.config import Invocation, NamesrvSettings, log_notes, to_properties_text
from namesrv_stream.config.rocketmq_settings import WITHOUT_EFFECT, RocketmqSettings
from namesrv_stream.gateway.background_gateway import run_in_loop, serve
from namesrv_stream.gateway.gateway import Gateway
from namesrv_stream.reporting.logs import set_up_logging

_SWITCH_INTERVAL_S = 0.0005
"""The time for which a thread that reads a large body may keep the event loop waiting.

Python's default is ten times that.
"""

_GC_THRESHOLDS = 700, 10, 100
"""The last one is ten times Python's default. Full collections, 15 to 70 ms each, were half of the longest delays of
lookups while hostile peers came and went."""


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
@click.option("-p", "--print", "print_only", is_flag=True, help="Print all settings in force and end.")
@click.pass_obj
def gateway(invocation: Invocation, print_only: bool) -> None:
    """Serve RocketMQ's brokers, clients and mqadmin at listenPort, until SIGTERM or Ctrl-C.

    Each of RocketMQ's settings is accepted as an option too: --listenPort 9876. Several may run side by side. Kafka and
    the job may be away: lookups are answered from the last snapshot.
    """
    settings = invocation.settings
    if print_only:
        click.echo(to_properties_text(settings), nl=False)
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
