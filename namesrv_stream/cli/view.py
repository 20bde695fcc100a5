"""Make reading commands: their options, the snapshot that they read, and --watch."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from namesrv_stream.answers.job_status import Health
from namesrv_stream.answers.job_status import health as health_of
from namesrv_stream.answers.model import NotFoundError, encode_answer
from namesrv_stream.answers.questions import Question
from namesrv_stream.answers.times import is_still_to_come
from namesrv_stream.cli.options import asked, options_of
from namesrv_stream.cli.output import console, heading, print_answer, say, time_text
from namesrv_stream.config import Invocation, NamesrvSettings
from namesrv_stream.config.written_times import ACCEPTED, day_begin, epoch_in, parsed_time
from namesrv_stream.errors import PublicationLostError
from namesrv_stream.reporting.texts import SHOWN_ZONE, age_text, duration_text
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.damage_watch import has_later_lines, require_publication
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root

_WATCH_S = 1.0
MIN_WATCH_S = 0.1
Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def _past_time(text: str) -> AsOf:
    """Return the time that a text names."""
    try:
        at = parsed_time(text, datetime.now(UTC), SHOWN_ZONE.get())
        return AsOf(at_ms=int(at.timestamp() * 1000))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def first_moment(text: str) -> AsOf:
    """Return the earlier of two moments that are compared: of a date the begin of that day."""
    return moment(day_begin(text))


def moment(text: str) -> AsOf:
    """Return the epoch or the time that a text names; one that is still to come is refused."""
    epoch = epoch_in(text)
    if epoch is not None:
        return AsOf(epoch)
    try:
        at = _past_time(text)
    except click.BadParameter as error:
        raise click.BadParameter(f"{error.message} A number is that of a snapshot.") from error
    if is_still_to_come(at.at_ms or 0, datetime.now(UTC)):
        raise click.BadParameter(f"{text!r} is in the future. Use `now` for the newest snapshot.")
    return at


class View(NamedTuple):
    """Values of --json, --as-of and --watch."""

    as_json: bool
    as_of: AsOf | None
    watch_s: float | None


json_option = click.option("--json", "as_json", is_flag=True, help="Print standard JSON, one line.")
as_of_option = click.option(
    "--as-of",
    type=moment,
    metavar="EPOCH|TIME",
    help=f"Answer as of this snapshot or time: {ACCEPTED}.",
)


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
    follows = f"Repeat for each new snapshot (default: check every {_WATCH_S:g} s)."
    watch_option = seconds_option("watch", _WATCH_S, follows, least_s=MIN_WATCH_S)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_view(
            *args: object, as_json: bool, as_of: AsOf | None = None, watch_s: float | None = None, **options: object
        ) -> object:
            if as_of is not None and watch_s is not None:
                raise click.UsageError("--watch and --as-of exclude each other. Give one of them.")
            return command(*args, view=View(as_json, as_of, watch_s), **options)

        with_watch = watch_option(with_view) if watch else with_view
        return json_option(as_of_option(with_watch) if as_of else with_watch)

    return decorate


def heading_of(title: str, registry: RegistryAt, health: Health | None) -> Text:
    """Return a line with the title and the moment of the answer. `health`: None if the question is about the past."""
    row = registry.snapshot
    if registry.as_of.at_ms is not None and registry.is_historical:  # all times below are in this zone too
        return heading(title, f"as of {time_text(registry.as_of.at_ms, with_zone=True)} (snapshot {row.epoch})")
    if row.event_time is None:
        return heading(title, f"snapshot {row.epoch}, no data yet")
    event_time = time_text(row.event_time, with_zone=True)
    published = f", published {age_text(health.now_ms - row.published_at)}" if health else ""
    stopped = ", job stopped" if health and health.progress.state == "stopped in order" else ""
    return heading(title, f"snapshot {row.epoch}, data as of {event_time}{published}{stopped}")


class Answer(NamedTuple):
    """One answer in its two forms: as JSON and as it is shown.

    `lasting`: what of the value does not change by the clock alone. --watch prints an answer again if it differs.
    `exit_status`: that of the command.
    """

    value: object
    shown: RenderableType
    lasting: object = None
    exit_status: int = 0


Answering = Callable[[RegistryAt, Health | None], Answer]


def reads(
    name: str,
    question: type[Question] | None = None,
    *,
    as_of: bool = True,
    watch: bool = True,
    without: Collection[str] = (),
) -> Callable[[Callable[..., Answer]], click.Command]:
    """Return a decorator that makes a command of a function, whose docstring is the command's help.

    The function gets the registry at the moment asked for, the job's health, None about the past, the question, of
    whose fields options are made, but for those in `without`, and the options and arguments of its own.
    """
    options = [] if question is None else options_of(question, without)

    def decorate(answer: Callable[..., Answer]) -> click.Command:
        @click.command(name, help=answer.__doc__)
        @view_options(as_of=as_of, watch=watch)
        @click.pass_obj
        def command(invocation: Invocation, /, view: View, **given: Any) -> None:
            own = given
            if question is not None:
                fields = {str(each.name): given[str(each.name)] for each in options}
                own = {each: value for each, value in given.items() if each not in fields}
                own["question"] = asked(question, fields)
            show(invocation, view, lambda registry, health: answer(registry, health, **own))

        command.params = [*getattr(answer, "__click_params__", [])[::-1], *options, *command.params]
        return command

    return decorate


def open_registry(settings: NamesrvSettings) -> Registry:
    """Return the registry at `delta.root`."""
    return Registry(root_of(settings), settings=settings)


def root_of(settings: NamesrvSettings) -> Root:
    """Return the root at `delta.root`. A local path is made absolute, so that printed paths are valid in any folder."""
    url = settings.delta_root if "://" in settings.delta_root else str(Path(settings.delta_root).absolute())
    return Root(url, settings.storage_options or None)


def show(invocation: Invocation, view: View, answer: Answering) -> None:
    """Print the answer of the moment asked for or, with --watch, of each new snapshot."""
    opened = open_registry(invocation.settings)
    if view.watch_s is not None:
        _watch(opened, view, answer)
        return
    if view.as_of is not None:
        registry = opened.at(*view.as_of)
        health = None if registry.is_historical else health_of(registry, time.time_ns() // 1_000_000)
        _print_once(answer(registry, health), view)
        return
    registry, health = _current(opened)
    if warning := _stale_text(health):
        say(f"warning: {warning}")
    if has_later_lines(registry.root, registry.snapshot):
        try:
            require_publication(registry.root)
        except PublicationLostError as error:
            say(f"warning: {error}")
    _print_once(answer(registry, health), view)


def _print_once(found: Answer, view: View) -> None:
    print_answer(found.value, found.shown, as_json=view.as_json)
    if found.exit_status:
        raise click.exceptions.Exit(found.exit_status)


def _current(opened: Registry) -> tuple[RegistryAt, Health]:
    """Return the newest snapshot, looked at now."""
    registry = opened.newest()
    return registry, health_of(registry, time.time_ns() // 1_000_000)


def _stale_text(health: Health) -> str:
    """Return the text that the tables are far behind, and why; empty text if they are not.

    A job that was stopped is no surprise: the heading of each answer has it.
    """
    if not health.is_stale or health.progress.state == "stopped in order":
        return ""
    progress = health.progress
    because = {
        "catching up": "The streaming job is catching up:",
        "starting": "The streaming job is starting:",
        "silent": f"The streaming job has published nothing since {time_text(progress.since_ms)}. Check that it runs:",
    }
    return (
        f"the tables are {duration_text(progress.lag_ms or 0)} behind. "
        f"{because.get(progress.state, 'The streaming job is running:')} `namesrv-stream status` shows more."
    )


def _watch(opened: Registry, view: View, answer: Answering) -> None:
    output = console()
    if view.as_json or not output.is_terminal:
        _print_each(opened, view, answer)
        return
    with Live(console=output, screen=True, auto_refresh=False) as screen:
        for _ in looks(view.watch_s):
            registry, health = _current(opened)
            warning = [Text(text, "bold red") for text in [_stale_text(health)] if text]
            try:
                shown = answer(registry, health).shown
            except NotFoundError as error:  # a watched topic may come and go
                shown = Text(str(error), "yellow")
            screen.update(Group(*warning, shown), refresh=True)


def looks(pause_s: float | None) -> Iterator[None]:
    """Yield once for each look at the tables until Ctrl-C, with a pause after each; only once if `pause_s` is None.

    Ctrl-C takes effect between two looks, since it must not interrupt a library within one.
    """
    if pause_s is None:
        yield
        return
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    yield
    while not stopped.wait(pause_s):
        yield


def _print_each(opened: Registry, view: View, answer: Answering) -> None:
    """Print the answer each time it changes. A snapshot that leaves it as it is prints nothing."""
    last: bytes | None = None
    for _ in looks(view.watch_s):
        try:
            found = answer(*_current(opened))
            if (now := encode_answer(found.lasting or found.value)) != last:
                print_answer(*found[:2], as_json=view.as_json)
            last = now
        except NotFoundError as error:
            if last != b"":
                say(str(error))
            last = b""
