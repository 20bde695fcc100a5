"""Print what a long program is doing, for those who have only its log and no terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

EVERY_S = 10.0

Activity = str | Callable[[], str]
"""The present work of a program: a text, or a function that returns it when a line is printed."""


class Progress:
    """Progress of a program, printed on standard error every few seconds. Its user sets `activity`."""

    def __init__(self, program: str, activity: Activity, every_s: float) -> None:
        self._program = program
        self._every_s = every_s
        self._began_s = time.monotonic()
        self._ended = threading.Event()
        self.activity = activity

    def print_until_ended(self) -> None:
        """Print a line every few seconds until `end`."""
        while not self._ended.wait(self._every_s):
            passed_s = time.monotonic() - self._began_s
            activity = self.activity if isinstance(self.activity, str) else self.activity()
            click.echo(f"{self._program}: {activity}, {passed_s:,.0f} s after the start", err=True)

    def end(self) -> None:
        """Let `print_until_ended` return."""
        self._ended.set()


@contextmanager
def progress(program: str, activity: Activity = "starting Spark", every_s: float | None = None) -> Iterator[Progress]:
    """Print the activity that the yielded object has, every ten seconds within the `with`."""
    shown = Progress(program, activity, EVERY_S if every_s is None else every_s)
    thread = threading.Thread(target=shown.print_until_ended, name="progress", daemon=True)
    thread.start()
    try:
        yield shown
    finally:
        shown.end()
        thread.join()
