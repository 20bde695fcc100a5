"""Options of reading commands: the moment that is looked at, the stretch of time, --json and --watch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, NamedTuple

import click

from namesrv_stream.history.events import AsOf, Span
from namesrv_stream.questions.times import ACCEPTED, epoch_in, parsed_time

DEFAULT_WATCH_S = 1.0
LEAST_WATCH_S = 0.1
Option = Callable[[Callable[..., Any]], Callable[..., Any]]


class Moment(click.ParamType[AsOf]):
    """Click parameter type of a time or, if `epochs` is True, of a time or an epoch."""

    def __init__(self, *, epochs: bool) -> None:
        self._epochs = epochs
        self.name = "epoch|time" if epochs else "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> AsOf:
        """Return the moment that a text names."""
        if isinstance(value, AsOf):
            return value
        text = str(value)
        if self._epochs and (epoch := epoch_in(text)) is not None:
            return AsOf(epoch)
        try:
            return AsOf(at_ms=int(parsed_time(text, datetime.now().astimezone()).timestamp() * 1000))
        except ValueError as error:
            self.fail(str(error) if not self._epochs else f"{error} A number is an epoch.", param, ctx)


class View(NamedTuple):
    """Values of --json, --as-of and --watch."""

    as_json: bool
    as_of: AsOf | None
    watch_s: float | None


def span_of(since: AsOf | None, *until: AsOf | None) -> Span:
    """Return the span from --since to --until, and to any other moment."""
    return Span(since.at_ms if since else None, tuple(filter(None, until)))


json_option = click.option("--json", "as_json", is_flag=True, help="Print standard JSON, one line.")
as_of_option = click.option(
    "--as-of",
    type=Moment(epochs=True),
    help=f"Answer as of this epoch, or of this event time: {ACCEPTED}.",
)
since_option = click.option("--since", type=Moment(epochs=False), help=f"Show events from this time on: {ACCEPTED}.")
until_option = click.option("--until", type=Moment(epochs=False), help="Show events up to this time.")
versions_option = click.option(
    "--versions", is_flag=True, help="Show registrations that changed nothing but the data version too."
)


def limit_option(default: int) -> Option:
    """Return the option --limit of a list."""
    help_text = "Show the newest N."
    return click.option("--limit", type=click.IntRange(min=1), default=default, show_default=True, help=help_text)


def seconds_option(name: str, default_s: float, help_text: str, *, least_s: float) -> Option:
    """Return an option whose value is `default_s` if none is given; --watch is the argument `watch_s`."""
    return click.option(
        f"--{name}",
        f"{name}_s",
        type=click.FloatRange(min=least_s),
        is_flag=False,
        flag_value=default_s,
        metavar="[SECONDS]",
        help=help_text,
    )


def view_options(*, as_of: bool = True, watch: bool = True) -> Option:
    """Return a decorator that adds --json, --as-of and --watch to a command, which receives them as `view`."""
    follows = f"Follow new snapshots until Ctrl-C, checking every {DEFAULT_WATCH_S:g} s."

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_view(
            *args: object, as_json: bool, as_of: AsOf | None = None, watch_s: float | None = None, **options: object
        ) -> object:
            if as_of is not None and watch_s is not None:
                raise click.UsageError("--watch follows the present, --as-of looks at the past: give one of them.")
            return command(*args, view=View(as_json, as_of, watch_s), **options)

        with_watch = (
            seconds_option("watch", DEFAULT_WATCH_S, follows, least_s=LEAST_WATCH_S)(with_view) if watch else with_view
        )
        return json_option(as_of_option(with_watch) if as_of else with_watch)

    return decorate
