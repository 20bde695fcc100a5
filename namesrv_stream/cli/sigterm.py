"""Let SIGTERM end a program at once, after it has removed unfinished files and printed a last line."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

EXIT_TERMINATED = 128 + signal.SIGTERM
"""Exit status in shells of a program that SIGTERM has ended."""


class Terminated(BaseException):
    """SIGTERM, raised in the main thread so that it ends any wait. It is no Exception, because py4j would hide that."""


@contextmanager
def ends_on_sigterm(program: str, outcome: str) -> Iterator[None]:
    """Leave the `with` at SIGTERM, print `outcome` and exit. A second SIGTERM meanwhile is ignored.

    It does nothing outside of the main thread, because other threads get no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, _raise_once)
    try:
        yield
    except Terminated:
        click.echo(f"{program}: ended by a signal. {outcome}", err=True)
        sys.exit(EXIT_TERMINATED)
    finally:
        signal.signal(signal.SIGTERM, former)


def _raise_once(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated
