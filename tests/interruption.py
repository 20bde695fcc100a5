"""Programs that a test interrupts with SIGINT."""

import subprocess
import sys
from contextlib import contextmanager

_PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from namesrv_stream.cli import main; main()"
)


def interruptible(*arguments):
    """The command line as a shell starts it in the foreground: in the background its children ignore SIGINT."""
    return [sys.executable, "-c", _PROGRAM, *arguments]


@contextmanager
def running(*arguments):
    """Run the command line and keep its output for the test. It is ended in any case."""
    process = subprocess.Popen(interruptible(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
