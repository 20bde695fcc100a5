"""The command line. A command is imported when it is called, so that a lookup starts in a fraction of a second."""

from namesrv_stream.cli.entry import main

__all__ = ["main"]
