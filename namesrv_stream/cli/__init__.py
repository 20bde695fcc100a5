"""The command line. A command is imported when it is called, so that a lookup starts in a fraction of a second."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""Exit status in shells of a program that Ctrl-C has ended."""


@contextmanager
def ends_at_once_on_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the process within the `with`, for imports: nothing runs yet, and Python would print a traceback.

    It does nothing where Ctrl-C is ignored or handled otherwise.
    """
    is_main = threading.current_thread() is threading.main_thread()  # other threads may set no handler
    is_default = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if is_default:
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        yield
    finally:
        if is_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """Run the command line."""
    with ends_at_once_on_ctrl_c():
        from namesrv_stream.cli import entry  # noqa: PLC0415 -- takes a part of a second
    entry.main()
