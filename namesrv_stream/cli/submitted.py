"""Options and error handling of the programs in jobs/."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from copy import copy
from typing import Any

import click

from namesrv_stream.cli import exit_on_sigterm
from namesrv_stream.cli.entry import ZONE, settings_options
from namesrv_stream.cli.view import root_of
from namesrv_stream.config import Invocation
from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.tables.schemas import SNAPSHOT


def takes_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Add -c, --set, --root and --tz to a click command, and pass their `Invocation` as its first argument."""
    command = click.pass_obj(function)
    command.__dict__.setdefault("__click_params__", []).extend([*settings_options("-s", "--set"), copy(ZONE)])
    return command


def table_job(program: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a program that works on a registry's tables.

    It adds -c, --set and --root to a click command, and passes their registry and settings as its first arguments. A
    NamesrvError is printed as its message and ends the program with the error's exit status. SIGTERM ends the program
    at once: what it has committed stays.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @takes_settings
        @functools.wraps(function)
        def command(invocation: Invocation, **options: Any) -> None:
            set_up_logging()
            exit_on_sigterm()
            try:
                root = root_of(invocation.settings)
                root.open(SNAPSHOT)
                function(root, invocation.settings, **options)
            except NamesrvError as error:
                click.echo(f"{program}: {error}", err=True)
                sys.exit(error.exit_status)

        return command

    return decorated
