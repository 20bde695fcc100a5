"""Run a command line of a container as a process here, as far as its options are read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.deploy.chart import PROJECT

NAMESRV_STREAM = Path(sys.executable).with_name("namesrv-stream")
_SPARK_OPTIONS = ("--driver-memory=",)


def options_problem(command: list[str]) -> str:
    """Start the program with these options and --help; return what it does not accept, or nothing.

    The options of spark-submit itself are cut off: they are a JVM's.
    """
    program, *arguments = command
    match program:
        case "namesrv-stream":
            line = [NAMESRV_STREAM, *arguments, "--help"]
        case "spark-submit":
            job, *options = (each for each in arguments if not each.startswith(_SPARK_OPTIONS))
            line = [sys.executable, PROJECT / job, *options, "--help"]
        case "python":
            line = [sys.executable, *arguments, "--help"]
        case _:
            return f"unknown program {program}"
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=PROJECT)
    return "" if done.returncode == 0 else done.stderr


def settings_of(command: list[str]) -> dict[str, str]:
    """Return the settings that a command line has by --set=KEY=VALUE."""
    pairs = (each.removeprefix("--set=") for each in command if each.startswith("--set="))
    return dict(pair.split("=", 1) for pair in pairs)
