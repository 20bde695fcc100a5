"""Choice of the snapshot that a reading command looks at, output of the answer, and --watch."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from namesrv_stream.cli.group import say
from namesrv_stream.cli.moments import ACCEPTED, Moment
from namesrv_stream.cli.output import console, duration_text, heading, print_shown, time_text
from namesrv_stream.config import Invocation, NamesrvSettings
from namesrv_stream.errors import NamesrvError, SnapshotGoneError, did_you_mean
from namesrv_stream.history.between import between
from namesrv_stream.history.events import AsOf, Span, members_at
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.progress import JobProgress, is_stale, job_progress
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.rules.system_topics import is_system_topic
from namesrv_stream.tables.progress_sign import ProgressFile
from namesrv_stream.tables.reader import RegistryView, RouteReader
from namesrv_stream.tables.root import Root

DEFAULT_WATCH_S = 1.0
BROKERS_ALONE = "the brokers, without topics, signs of life and data versions"
"""Text for `show`: the part of a list of brokers that the events have."""

_NAMED = 5
_NEAREST = 3


class NotFoundError(NamesrvError):
    """Failure to find a name in the snapshot looked at."""

    def __init__(self, kind: str, name: str, known: Iterable[str], epoch: int) -> None:
        names = sorted(set(known))
        nearest = did_you_mean(name, names, most=_NEAREST).rstrip()
        super().__init__(f"there is no {kind} {name} in epoch {epoch}. {nearest or _what_there_is(names)}")
        self.kind = kind
        self.name = name
        self.epoch = epoch


def _what_there_is(names: list[str]) -> str:
    if not names:
        return "There is none at all yet."
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"There is {', '.join(sorted(names, key=is_system_topic)[:_NAMED])}{more}."


class View(NamedTuple):
    """Values of --json, --as-of and --watch. `as_of` is an epoch or a moment of event time."""

    as_json: bool
    as_of: int | datetime | None
    watch_s: float | None

    @property
    def as_of_arguments(self) -> dict[str, int]:
        """`as_of` as keyword arguments of `RouteReader.open` and `Snapshots.find`; empty if it is None."""
        asked = {} if self.as_of is None else moment_of(self.as_of)._asdict()
        return {name: value for name, value in asked.items() if value is not None}

    @property
    def asked_ms(self) -> int | None:
        """The event time in `as_of`, None if it names none."""
        return self.as_of_arguments.get("at_ms")


def moment_of(asked: int | datetime) -> AsOf:
    """Return an AsOf for an epoch or a moment of event time."""
    return AsOf(at_ms=int(asked.timestamp() * 1000)) if isinstance(asked, datetime) else AsOf(epoch=asked)


def span_of(since: datetime | None, until: datetime | None) -> Span:
    """Return the span from --since to --until."""
    return Span(moment_of(since).at_ms if since else None, (moment_of(until),) if until else ())


class Served(NamedTuple):
    """One snapshot and the moment at which it is looked at: now, or its own event time if it is of the past.

    `remembered` is set if the snapshot of the moment asked for is gone. Then `tables` has the brokers of that moment
    from the events, `snapshot` is the newest one, and topics, signs of life and data versions are not known.
    `row_now` is the snapshot with the times of the job's sign of progress.
    """

    snapshot: SnapshotRow
    tables: RouteTables
    settings: NamesrvSettings
    now_ms: int
    is_past: bool
    remembered: AsOf | None = None
    row_now: SnapshotRow | None = None

    @property
    def progress(self) -> JobProgress:
        """The state of the job."""
        return job_progress(self.row_now or self.snapshot, self.now_ms)

    @property
    def is_stale(self) -> bool:
        """True if brokers are live and the tables are more than STALE_AFTER_MS of event time behind."""
        late = is_stale(self.row_now or self.snapshot, self.now_ms)
        return not self.is_past and bool(self.tables.live) and late

    @property
    def age_ms(self) -> int:
        """Milliseconds since publication."""
        return self.now_ms - self.snapshot.published_at

    def heading(self, title: str) -> Text:
        """Return a line with the title and the snapshot from which the answer is."""
        if self.remembered is not None:
            return heading(title, f"{self.remembered}, from the events")
        moment = time_text(self.snapshot.event_time, with_zone=True)  # the zone of all times below, too
        age = "as of then" if self.is_past else f"published {duration_text(self.age_ms)} ago"
        return heading(title, f"epoch {self.snapshot.epoch}, event time {moment}, {age}")


class Answer(NamedTuple):
    """One answer in its two forms. `shown` is called with True if the output is plain: no terminal."""

    json: bytes
    shown: Callable[[bool], RenderableType]


def view_options(*, as_of: bool = True, watch: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds --json, --as-of and --watch to a command, which receives them as `view`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_view(
            *args: object,
            as_json: bool,
            as_of: int | datetime | None = None,
            watch_s: float | None = None,
            **options: object,
        ) -> object:
            if as_of is not None and watch_s is not None:
                raise click.UsageError("--watch follows the present, --as-of looks at the past: give one of them.")
            return command(*args, view=View(as_json, as_of, watch_s), **options)

        options = [click.option("--json", "as_json", is_flag=True, help="Print standard JSON, one line.")]
        if as_of:
            options.append(_as_of_option)
        if watch:
            options.append(_watch_option)
        for option in reversed(options):
            with_view = option(with_view)
        return with_view

    return decorate


_as_of_option = click.option(
    "--as-of",
    type=Moment(epochs=True),
    help=f"Answer as of this epoch, or of this event time: {ACCEPTED}.",
)
_watch_option = click.option(
    "--watch",
    "watch_s",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=DEFAULT_WATCH_S,
    metavar="[SECONDS]",
    help=f"Follow new snapshots until Ctrl-C, checking every {DEFAULT_WATCH_S:g} s.",
)


def open_reader(settings: NamesrvSettings) -> RouteReader:
    """Return a reader of the tables at `delta.root`."""
    return RouteReader(root_of(settings))


def root_of(settings: NamesrvSettings) -> Root:
    """Return the root at `delta.root`. A local path is made absolute, so that printed paths are valid in any folder."""
    url = settings.delta_root if "://" in settings.delta_root else str(Path(settings.delta_root).absolute())
    return Root(url, settings.storage_options or None)


def show(invocation: Invocation, view: View, answer: Callable[[Served], Answer], *, remembers: str = "") -> None:
    """Print the answer of the snapshot asked for or, with --watch, of each new one.

    If that snapshot is gone and `remembers` is not empty, the answer is made from the events. `remembers` names the
    part of the answer that the events have, for a notice on standard error. Raises SnapshotGoneError if it is empty.
    """
    reader = open_reader(invocation.settings)
    if view.watch_s is not None:
        _watch(reader, invocation.settings, view, answer)
        return
    try:
        served = _served(reader.open(**view.as_of_arguments), invocation.settings, is_past=view.as_of is not None)
        lacking = between(root_of(invocation.settings), reader.snapshots, served.snapshot, view.asked_ms)
        if lacking is not None:
            say(str(lacking))
    except SnapshotGoneError as gone:
        if not remembers or view.as_of is None:
            raise
        say(f"{gone.asked} is past snapshot.retention. The answer is made from the events: {remembers}.")
        served = _remembered(reader, invocation.settings, moment_of(view.as_of))
    warn_if_stale(served)
    print_answer(answer(served), as_json=view.as_json)


def current(reader: RouteReader, settings: NamesrvSettings) -> Served:
    """Return the newest snapshot, looked at now."""
    return _served(reader.follow(), settings, is_past=False)


def warn_if_stale(served: Served) -> None:
    """Print on standard error that the tables are far behind, and why."""
    if served.is_stale:
        say(f"warning: {_stale_text(served)}")


def _stale_text(served: Served) -> str:
    progress = served.progress
    because = {
        "catching up": "The streaming job is catching up:",
        "starting": "The streaming job is starting:",
        "stopped in order": f"The streaming job was stopped at {time_text(progress.since_ms)}: start it.",
        "dead": f"The streaming job has published nothing since {time_text(progress.since_ms)}: is it running?",
    }
    return (
        f"the tables are {duration_text(progress.lag_ms or 0)} of event time behind although brokers are live. "
        f"{because.get(progress.state, 'The streaming job runs:')} `namesrv-stream status` shows more."
    )


def _served(opened: RegistryView, settings: NamesrvSettings, *, is_past: bool) -> Served:
    snapshot = opened.snapshot
    now_ms = snapshot.event_time or snapshot.published_at if is_past else time.time_ns() // 1_000_000
    changed = opened.routes.namesrv_config
    row_now = snapshot if is_past else ProgressFile(root_of(settings)).row_now(snapshot)
    return Served(snapshot, opened.routes, settings.restored(changed), now_ms, is_past, row_now=row_now)


def _remembered(reader: RouteReader, settings: NamesrvSettings, moment: AsOf) -> Served:
    newest = reader.snapshots.newest()
    members = members_at(root_of(settings), newest, moment)
    return Served(newest, members.routes(), settings, moment.at_ms or 0, is_past=True, remembered=moment)


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print the answer on standard output."""
    if as_json:
        click.echo(answer.json)
        return
    print_shown(answer.shown)


def _watch(reader: RouteReader, settings: NamesrvSettings, view: View, answer: Callable[[Served], Answer]) -> None:
    output = console()
    if view.as_json or not output.is_terminal:
        _print_each(reader, settings, view, answer)
        return
    with Live(console=output, screen=True, auto_refresh=False) as screen:
        for _ in looks(view.watch_s):
            screen.update(_watched(current(reader, settings), answer), refresh=True)


def looks(pause_s: float | None) -> Iterator[None]:
    """Yield once for each look at the tables until Ctrl-C, with a pause after each.

    Ctrl-C takes effect between two looks, since it must not interrupt a library within one.
    """
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    yield
    while not stopped.wait(pause_s):
        yield


def _watched(served: Served, answer: Callable[[Served], Answer]) -> RenderableType:
    """Return the answer, or the reason that there is none now: a topic may be added and removed while it is watched."""
    warning = [Text(_stale_text(served), "bold red")] if served.is_stale else []
    try:
        return Group(*warning, answer(served).shown(False))
    except NotFoundError as error:
        return Group(*warning, Text(str(error), "yellow"))


def _print_each(reader: RouteReader, settings: NamesrvSettings, view: View, answer: Callable[[Served], Answer]) -> None:
    """Print the answer each time it changes. A snapshot that leaves it as it is prints nothing."""
    last: bytes | None = None
    for _ in looks(view.watch_s):
        served = current(reader, settings)
        try:
            found = answer(served)
            if found.json != last:
                print_answer(found, as_json=view.as_json)
            last = found.json
        except NotFoundError as error:
            if last != b"":
                say(str(error))
            last = b""
