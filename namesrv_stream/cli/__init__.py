"""The command line. A command is imported when it is called, so that a lookup starts in a fraction of a second."""

from __future__ import annotations

import signal
import sys


def exit_on_sigterm() -> None:
    """Let SIGTERM raise SystemExit in the main thread, with status 143, so that unfinished files are removed.

    A second one does not cut that short.
    """
    signal.signal(signal.SIGTERM, _exit)


def _exit(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def main() -> None:
    """Run the command line."""
    exit_on_sigterm()
    try:
        from namesrv_stream.cli import entry  # noqa: PLC0415 -- takes a part of a second
    except KeyboardInterrupt:  # before click, which takes it from here on
        sys.exit("Aborted!")

    entry.main()
