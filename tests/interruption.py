"""Programs that a test interrupts with SIGINT."""

import sys

_PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from namesrv_stream.cli import main; main()"
)


def interruptible(*arguments):
    """The command line as a shell starts it in the foreground: in the background its children ignore SIGINT."""
    return [sys.executable, "-c", _PROGRAM, *arguments]
