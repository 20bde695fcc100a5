"""Click group of lazily imported commands, which prints an error as one line."""

from __future__ import annotations

import copy
import importlib
import traceback
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from namesrv_stream.errors import NamesrvError, did_you_mean
from namesrv_stream.masking import masked

DEBUG = "namesrv_stream.debug"
"""Key in click's meta; its value is True if --debug was given."""


class LazyCommand(NamedTuple):
    """Place of a command (`module:attribute`), and the heading and words with which the help lists it."""

    target: str
    heading: str
    summary: str


class LazyGroup(click.Group):
    """Click group that imports each command when it is called; click's own `commands` stays empty.

    The options `shared` are accepted before and after the name of each command.
    """

    def __init__(
        self, lazy: Mapping[str, LazyCommand], shared: Sequence[click.Option] = (), **settings: object
    ) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # click's own keywords, passed on
        self.params += shared
        self._lazy = lazy
        self._shared = shared

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, but refuse arguments that are not UTF-8: neither JSON nor a table can hold them."""
        for argument in args:
            try:
                argument.encode()
            except UnicodeEncodeError:
                problem = f"{argument!a} is not UTF-8. Is the terminal set to another encoding?"
                raise click.UsageError(problem, ctx) from None
        return super().parse_args(ctx, args)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return all names, in the order of the help."""
        return list(self._lazy)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command. RocketMQ's names are camelCase; any case is accepted."""
        name = {each.lower(): each for each in self._lazy}.get(cmd_name.lower())
        if name is None:
            return None
        module, attribute = self._lazy[name].target.split(":")
        return _with_options(getattr(importlib.import_module(module), attribute), self._shared)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does, but name the nearest command if there is none of this name."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]}. {did_you_mean(args[0], self._lazy)}--help lists all.")
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help's list of commands without importing any of them."""
        for heading in dict.fromkeys(command.heading for command in self._lazy.values()):
            rows = [(name, command.summary) for name, command in self._lazy.items() if command.heading == heading]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Print an error as one line, with --debug after its traceback, and exit with its status."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click handles these, also a reader of our output that has ended, as in `| head`
        except Exception as error:
            if ctx.meta.get(DEBUG):
                click.echo(masked(traceback.format_exc()), nl=False, err=True)
            if isinstance(error, NamesrvError):
                say(str(error))
                ctx.exit(error.exit_status)
            message = " ".join(str(error).split()).removesuffix(".")  # delta-rs writes several lines of an object store
            say(f"unexpected {type(error).__name__}: {message}. --debug shows where.")
            ctx.exit(1)


def _with_options(command: click.Command, options: Sequence[click.Option]) -> click.Command:
    """Return a copy of the command that accepts `options` too, but for spellings that are the command's own."""
    own = {spelling for parameter in command.params for spelling in parameter.opts}
    extended = copy.copy(command)
    extended.params = [
        *command.params,
        *(_without(option, own) for option in options if not own.issuperset(option.opts)),
    ]
    return extended


def _without(option: click.Option, taken: set[str]) -> click.Option:
    """Return the option without the spellings in `taken`."""
    reduced = copy.copy(option)
    reduced.opts = [spelling for spelling in option.opts if spelling not in taken]
    return reduced


def say(message: str) -> None:
    """Print a line on standard error, so that standard output has only the answer."""
    click.echo(f"namesrv-stream: {masked(message)}", err=True)
