"""A click group whose commands are named here and imported when they are called, and that prints errors as one line."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import NamedTuple, cast

import click

from namesrv_stream.errors import NamesrvError, did_you_mean

DEBUG = "namesrv_stream.debug"
"""Key in click's meta: whether --debug was given."""


class LazyCommand(NamedTuple):
    """Where a command is (`module:attribute`), under which heading and with what words the help lists it."""

    target: str
    heading: str
    summary: str


class LazyGroup(click.Group):
    """Commands by name; `commands` of click stays empty."""

    def __init__(self, lazy: Mapping[str, LazyCommand], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # click's own keywords, passed on
        self._lazy = lazy

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's. A name that is no UTF-8 is nowhere: neither JSON nor a table can hold it."""
        for argument in args:
            try:
                argument.encode()
            except UnicodeEncodeError:
                problem = f"{argument!a} is not UTF-8. Is the terminal set to another encoding?"
                raise click.UsageError(problem, ctx) from None
        return super().parse_args(ctx, args)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """All names, in the order of the help."""
        return list(self._lazy)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command. RocketMQ's names are camelCase; any case is taken."""
        name = {each.lower(): each for each in self._lazy}.get(cmd_name.lower())
        if name is None:
            return None
        module, attribute = self._lazy[name].target.split(":")
        return cast(click.Command, getattr(importlib.import_module(module), attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but names the nearest command."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]}. {did_you_mean(args[0], self._lazy)}--help lists all.")
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without importing any command."""
        for heading in dict.fromkeys(command.heading for command in self._lazy.values()):
            rows = [(name, command.summary) for name, command in self._lazy.items() if command.heading == heading]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command; an error becomes its message and an exit status, or a traceback with --debug."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click knows what to do, also where who reads us has gone, as `| head` does
        except Exception as error:
            if ctx.meta.get(DEBUG):
                raise
            if isinstance(error, NamesrvError):
                say(str(error))
                ctx.exit(error.exit_status)
            told = " ".join(str(error).split()).removesuffix(".")  # delta-rs tells of an object store in many lines
            say(f"unexpected {type(error).__name__}: {told}. --debug shows where.")
            ctx.exit(1)


def say(message: str) -> None:
    """A line on standard error, which leaves standard output to what was asked for."""
    click.echo(f"namesrv-stream: {message}", err=True)
