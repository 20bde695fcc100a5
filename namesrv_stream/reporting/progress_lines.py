"""Print the present work of a long program, for readers who have only its log and no terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

EVERY_S = 10.0

Activity = str | Callable[[], str]
"""The present work of a program: a text, or a function that returns it when a line is printed."""


@dataclass
class Progress:
    """Progress of a program. Its user sets `activity`."""

    activity: Activity


@contextmanager
def progress(program: str, activity: Activity = "starting Spark") -> Iterator[Progress]:
    """Print the activity that the yielded object has on standard error, every ten seconds within the `with`."""
    shown, ended, began_s = Progress(activity), threading.Event(), time.monotonic()

    def print_until_ended() -> None:
        while not ended.wait(EVERY_S):
            present = shown.activity if isinstance(shown.activity, str) else shown.activity()
            click.echo(f"{program}: {present}, {time.monotonic() - began_s:,.0f} s after the start", err=True)

    thread = threading.Thread(target=print_until_ended, name="progress", daemon=True)
    thread.start()
    try:
        yield shown
    finally:
        ended.set()
        thread.join()
