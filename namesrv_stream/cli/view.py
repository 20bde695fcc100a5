"""Make reading commands: their options, the snapshot that they read, and --watch."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from namesrv_stream.answers.events import Span
from namesrv_stream.answers.job_status import Health, health
from namesrv_stream.answers.subject import (
    ACCEPTED,
    NotFoundError,
    Seen,
    day_begin,
    epoch_in,
    is_still_to_come,
    parsed_time,
    span_between,
)
from namesrv_stream.cli.output import console, heading, print_answer, say, time_text
from namesrv_stream.config import Invocation, NamesrvSettings
from namesrv_stream.errors import PublicationLostError
from namesrv_stream.reporting.texts import SHOWN_ZONE, duration_text
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.damage_watch import has_later_lines, require_publication
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.wire.json_text import encode_json

_WATCH_S = 1.0
MIN_WATCH_S = 0.1
Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def past_time(text: str, *, is_begin: bool = False) -> AsOf:
    """Return the time that a text names; click calls this for an option of that type."""
    try:
        at = parsed_time(text, datetime.now(UTC), SHOWN_ZONE.get(), is_begin=is_begin)
        return AsOf(at_ms=int(at.timestamp() * 1000))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def begin_time(text: str) -> AsOf:
    """Return the time at which a span begins: of a time that a clock showed twice the earlier one."""
    return past_time(text, is_begin=True)


def first_moment(text: str) -> AsOf:
    """Return the earlier of two moments that are compared: of a date the begin of that day."""
    return moment(day_begin(text))


def moment(text: str) -> AsOf:
    """Return the epoch or the time that a text names; one that is still to come is refused."""
    epoch = epoch_in(text)
    if epoch is not None:
        return AsOf(epoch)
    try:
        at = past_time(text)
    except click.BadParameter as error:
        raise click.BadParameter(f"{error.message} A number is an epoch.") from error
    if is_still_to_come(at.at_ms or 0, datetime.now(UTC)):
        raise click.BadParameter(f"{text!r} is still to come: `now` is the newest moment.")
    return at


class View(NamedTuple):
    """Values of --json, --as-of and --watch."""

    as_json: bool
    as_of: AsOf | None
    watch_s: float | None


def span_of(since: AsOf | None, *until: AsOf | None) -> Span:
    """Return the span from --since to --until, and to any other moment."""
    return span_between(since.at_ms if since else None, *until)


json_option = click.option("--json", "as_json", is_flag=True, help="Print standard JSON, one line.")
as_of_option = click.option(
    "--as-of",
    type=moment,
    metavar="EPOCH|TIME",
    help=f"Answer as of this epoch, or of this event time: {ACCEPTED}.",
)


def limit_option(default: int) -> Option:
    """Return the option --limit of a list."""
    help_text = "Show the newest N."
    return click.option("--limit", type=click.IntRange(min=1), default=default, help=help_text)


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
    follows = f"Follow new snapshots until Ctrl-C, checking every {_WATCH_S:g} s."
    watch_option = seconds_option("watch", _WATCH_S, follows, least_s=MIN_WATCH_S)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_view(
            *args: object, as_json: bool, as_of: AsOf | None = None, watch_s: float | None = None, **options: object
        ) -> object:
            if as_of is not None and watch_s is not None:
                raise click.UsageError("--watch follows the present, --as-of looks at the past: give one of them.")
            return command(*args, view=View(as_json, as_of, watch_s), **options)

        with_watch = watch_option(with_view) if watch else with_view
        return json_option(as_of_option(with_watch) if as_of else with_watch)

    return decorate


class Looked(NamedTuple):
    """One snapshot, and the job's progress; `health` is None if the question is about the past."""

    seen: Seen
    health: Health | None

    def heading(self, title: str) -> Text:
        """Return a line with the title and the snapshot from which the answer is."""
        row = self.seen.snapshot
        event_time = time_text(row.event_time, with_zone=True)  # all times below are in this zone too
        published = self.health and f"published {duration_text(self.health.now_ms - row.published_at)} ago"
        return heading(title, f"epoch {row.epoch}, event time {event_time}, {published or 'as of then'}")


class Answer(NamedTuple):
    """One answer in its two forms: as JSON and as it is shown."""

    value: object
    shown: RenderableType


def reads(name: str, *, as_of: bool = True, watch: bool = True) -> Callable[[Callable[..., Answer]], click.Command]:
    """Return a decorator that makes a command of a function. The function gets a `Looked` and the command's options.

    The function's docstring is the command's help. With an option `topic` it sees the rows of that topic alone.
    """

    def decorate(answer: Callable[..., Answer]) -> click.Command:
        @click.command(name, help=answer.__doc__)
        @view_options(as_of=as_of, watch=watch)
        @click.pass_obj
        def command(invocation: Invocation, /, view: View, **options: Any) -> None:
            show(invocation, view, lambda looked: answer(looked, **options), options.get("topic"))

        command.params = [*getattr(answer, "__click_params__", [])[::-1], *command.params]
        return command

    return decorate


def open_reader(settings: NamesrvSettings, topic: str | None = None) -> RouteReader:
    """Return a reader of the tables at `delta.root`, which of all topics reads `topic` alone if that is given."""
    return RouteReader(root_of(settings), topic=topic)


def root_of(settings: NamesrvSettings) -> Root:
    """Return the root at `delta.root`. A local path is made absolute, so that printed paths are valid in any folder."""
    url = settings.delta_root if "://" in settings.delta_root else str(Path(settings.delta_root).absolute())
    return Root(url, settings.storage_options or None)


def show(invocation: Invocation, view: View, answer: Callable[[Looked], Answer], topic: str | None = None) -> None:
    """Print the answer of the moment asked for or, with --watch, of each new snapshot. `topic`: see `open_reader`."""
    settings = invocation.settings
    if view.watch_s is not None:
        _watch(open_reader(settings), settings, view, answer)
        return
    looked = _looked(open_reader(settings, topic), settings, view)
    if warning := _stale_text(looked):
        say(f"warning: {warning}")
    if looked.health is not None and has_later_lines(looked.seen.root, looked.seen.snapshot):
        try:
            require_publication(looked.seen.root)
        except PublicationLostError as error:
            say(f"warning: {error}")
    try:
        found = answer(looked)
    except NotFoundError:
        if topic is None:
            raise
        found = answer(_looked(open_reader(settings), settings, view))  # the error names the topics that there are
    print_answer(*found, as_json=view.as_json)


def _looked(reader: RouteReader, settings: NamesrvSettings, view: View) -> Looked:
    if view.as_of is None:
        return _current(reader, settings)
    return Looked(Seen.of(root_of(settings), reader.open(*view.as_of), settings), None)


def _current(reader: RouteReader, settings: NamesrvSettings) -> Looked:
    """Return the newest snapshot, looked at now."""
    seen = Seen.of(root_of(settings), reader.follow(), settings)
    return Looked(seen, health(seen, time.time_ns() // 1_000_000))


def _stale_text(looked: Looked) -> str:
    """Return the text that the tables are far behind, and why; empty text if they are not."""
    if looked.health is None or not looked.health.is_stale:
        return ""
    progress = looked.health.progress
    because = {
        "catching up": "The streaming job is catching up:",
        "starting": "The streaming job is starting:",
        "stopped in order": f"The streaming job was stopped at {time_text(progress.since_ms)}: start it.",
        "silent": f"The streaming job has published nothing since {time_text(progress.since_ms)}: is it running?",
    }
    return (
        f"the tables are {duration_text(progress.lag_ms or 0)} of event time behind although brokers are live. "
        f"{because.get(progress.state, 'The streaming job runs:')} `namesrv-stream status` shows more."
    )


def _watch(reader: RouteReader, settings: NamesrvSettings, view: View, answer: Callable[[Looked], Answer]) -> None:
    output = console()
    if view.as_json or not output.is_terminal:
        _print_each(reader, settings, view, answer)
        return
    with Live(console=output, screen=True, auto_refresh=False) as screen:
        for _ in looks(view.watch_s):
            screen.update(_watched(_current(reader, settings), answer), refresh=True)


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


def _watched(looked: Looked, answer: Callable[[Looked], Answer]) -> RenderableType:
    """Return the answer, or the reason why there is none now, because a watched topic may come and go."""
    warning = [Text(text, "bold red") for text in [_stale_text(looked)] if text]
    try:
        return Group(*warning, answer(looked).shown)
    except NotFoundError as error:
        return Group(*warning, Text(str(error), "yellow"))


def _print_each(reader: RouteReader, settings: NamesrvSettings, view: View, answer: Callable[[Looked], Answer]) -> None:
    """Print the answer each time it changes. A snapshot that leaves it as it is prints nothing."""
    last: bytes | None = None
    for _ in looks(view.watch_s):
        try:
            found = answer(_current(reader, settings))
            if (now := encode_json(found.value)) != last:
                print_answer(*found, as_json=view.as_json)
            last = now
        except NotFoundError as error:
            if last != b"":
                say(str(error))
            last = b""
