"""The command line of namesrv-stream, which benchmarks start in a process of its own, as users do."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from namesrv_stream.config import as_options


def program(root: Path, options: Mapping[str, object], command: str) -> list[str]:
    """Return the words that run a command of namesrv-stream on the tables under `root` with these settings."""
    executable = Path(sys.executable).with_name("namesrv-stream")
    return [str(executable), "--root", str(root), *as_options(options), command]
