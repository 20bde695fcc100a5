"""The command line. Commands are imported when they are called, so that a lookup starts in a fraction of a second."""

from namesrv_stream.cli.entry import main

__all__ = ["main"]
