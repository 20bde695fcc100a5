"""Choice of the snapshot that a reading command looks at, output of the answer, and --watch."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from namesrv_stream.cli.options import View, view_options
from namesrv_stream.cli.output import console, heading, print_shown, say, time_text
from namesrv_stream.config import Invocation, NamesrvSettings
from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.history.events import AsOf, members_at
from namesrv_stream.questions.job_status import Health, health
from namesrv_stream.questions.subject import Lacking, NotFoundError, Seen, between, now_of
from namesrv_stream.reporting.texts import counted, duration_text
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.wire.json_text import encode_json

BROKERS_ALONE = "the brokers, without topics, signs of life and data versions"
"""Text for `show`: the part of a list of brokers that the events have."""


class Looked(NamedTuple):
    """One snapshot, and how the job does; `health` is None if the snapshot is looked at as of the past."""

    seen: Seen
    health: Health | None

    def heading(self, title: str) -> Text:
        """Return a line with the title and the snapshot from which the answer is."""
        if self.seen.remembered is not None:
            return heading(title, f"{self.seen.remembered}, from the events")
        row = self.seen.snapshot
        moment = time_text(row.event_time, with_zone=True)  # the zone of all times below, too
        published = self.health and f"published {duration_text(self.health.now_ms - row.published_at)} ago"
        return heading(title, f"epoch {row.epoch}, event time {moment}, {published or 'as of then'}")


class Answer(NamedTuple):
    """One answer in its two forms. `shown` is called with True if the output is plain: no terminal."""

    value: object
    shown: Callable[[bool], RenderableType]


def reads(
    name: str, *, remembers: str = "", as_of: bool = True, watch: bool = True
) -> Callable[[Callable[..., Answer]], click.Command]:
    """Return a decorator that makes a command of a function, which gets what is looked at and the command's options.

    `remembers` is as for `show`. The function's docstring is the command's help.
    """

    def decorate(answer: Callable[..., Answer]) -> click.Command:
        @click.command(name, help=answer.__doc__)
        @view_options(as_of=as_of, watch=watch)
        @click.pass_obj
        def command(invocation: Invocation, /, view: View, **options: object) -> None:
            show(invocation, view, lambda looked: answer(looked, **options), remembers=remembers)

        command.params = [*getattr(answer, "__click_params__", [])[::-1], *command.params]
        return command

    return decorate


def open_reader(settings: NamesrvSettings) -> RouteReader:
    """Return a reader of the tables at `delta.root`."""
    return RouteReader(root_of(settings))


def root_of(settings: NamesrvSettings) -> Root:
    """Return the root at `delta.root`. A local path is made absolute, so that printed paths are valid in any folder."""
    url = settings.delta_root if "://" in settings.delta_root else str(Path(settings.delta_root).absolute())
    return Root(url, settings.storage_options or None)


def show(invocation: Invocation, view: View, answer: Callable[[Looked], Answer], *, remembers: str = "") -> None:
    """Print the answer of the snapshot asked for or, with --watch, of each new one.

    If that snapshot is gone and `remembers` is not empty, the answer is made from the events. `remembers` names the
    part of the answer that the events have, for a notice on standard error. Raises SnapshotGoneError if it is empty.
    """
    reader, settings = open_reader(invocation.settings), invocation.settings
    if view.watch_s is not None:
        _watch(reader, settings, view, answer)
        return
    if view.as_of is None:
        looked = current(reader, settings)
    else:
        looked = Looked(_past(reader, settings, view.as_of, remembers), None)
    warn_if_stale(looked)
    print_answer(answer(looked), as_json=view.as_json)


def current(reader: RouteReader, settings: NamesrvSettings) -> Looked:
    """Return the newest snapshot, looked at now."""
    seen = Seen.of(root_of(settings), reader.follow(), settings)
    return Looked(seen, health(seen, time.time_ns() // 1_000_000))


def _past(reader: RouteReader, settings: NamesrvSettings, asked: AsOf, remembers: str) -> Seen:
    root = root_of(settings)
    try:
        opened = reader.open(asked.epoch, asked.at_ms)
    except SnapshotGoneError as gone:
        if not remembers:
            raise
        say(f"{gone.asked} is past snapshot.retention. The answer is made from the events: {remembers}.")
        newest = reader.snapshots.newest()
        return Seen(root, newest, members_at(root, newest, asked).routes(), settings, remembered=asked)
    seen = Seen.of(root, opened, settings, between(root, reader.snapshots, opened.snapshot, asked.at_ms))
    if seen.lacking is not None:
        say(_lacking_text(seen, seen.lacking))
    return seen


def _lacking_text(seen: Seen, lacking: Lacking) -> str:
    times = (now_of(seen.snapshot), lacking.next_event_time, lacking.asked_at)
    began, ended, asked = (time_text(at, with_zone=True) for at in times)
    return (
        f"as of {began}, epoch {seen.snapshot.epoch}; the next snapshot is of {ended}. "
        f"{counted(lacking.events, 'event')} from there to {asked} are not in the answer: `namesrv-stream history` "
        "has them."
    )


def warn_if_stale(looked: Looked) -> None:
    """Print on standard error that the tables are far behind, and why."""
    if text := _stale_text(looked):
        say(f"warning: {text}")


def _stale_text(looked: Looked) -> str:
    """Return that the tables are far behind, and why; empty text if they are not."""
    if looked.health is None or not looked.health.is_stale:
        return ""
    progress = looked.health.progress
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


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print the answer on standard output."""
    if as_json:
        click.echo(encode_json(answer.value))
    else:
        print_shown(answer.shown)


def _watch(reader: RouteReader, settings: NamesrvSettings, view: View, answer: Callable[[Looked], Answer]) -> None:
    output = console()
    if view.as_json or not output.is_terminal:
        _print_each(reader, settings, view, answer)
        return
    with Live(console=output, screen=True, auto_refresh=False) as screen:
        for _ in looks(view.watch_s):
            screen.update(_watched(current(reader, settings), answer), refresh=True)


def looks(pause_s: float | None) -> Iterator[None]:
    """Yield once for each look at the tables until Ctrl-C, with a pause after each; once alone if `pause_s` is None.

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
    """Return the answer, or the reason that there is none now: a topic may be added and removed while it is watched."""
    warning = [Text(text, "bold red") for text in [_stale_text(looked)] if text]
    try:
        return Group(*warning, answer(looked).shown(False))
    except NotFoundError as error:
        return Group(*warning, Text(str(error), "yellow"))


def _print_each(reader: RouteReader, settings: NamesrvSettings, view: View, answer: Callable[[Looked], Answer]) -> None:
    """Print the answer each time it changes. A snapshot that leaves it as it is prints nothing."""
    last: bytes | None = None
    for _ in looks(view.watch_s):
        try:
            found = answer(current(reader, settings))
            if (now := encode_json(found.value)) != last:
                print_answer(found, as_json=view.as_json)
            last = now
        except NotFoundError as error:
            if last != b"":
                say(str(error))
            last = b""
