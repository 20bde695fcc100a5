"""Runs the parts of `make test-full`, or those named, one after the other: pytest once a part.

A test whose program the machine lacks fails (tests/conftest.py), and pytest names it at the end of its part.
"""

import subprocess
import sys

import click


def _system(*names):
    return [f"tests/system/test_{name}.py" for name in names]


PARTS = {
    "s3": ["tests/s3"],
    "page": ["tests/console", "tests/notebooks"],
    "clients": ["tests/league", *_system("client_programs", "gateway_auth", "gateway_rocketmq")],
    "tables": ["tests/answers", "tests/analysis", "tests/packaging", "tests/tables"],
    "job": _system("chaos", "cluster", "memory", "soak"),
}
"""Name of a part -> its files and folders. The part `system` has all that no other part has."""

PARTS["system"] = ["tests", *(f"--ignore={path}" for paths in PARTS.values() for path in paths)]

IN_TWO_PROCESSES = {"clients", "tables", "system"}
"""Parts that pytest runs in two processes. The tests of the others fill the machine by themselves, or measure it."""


def is_green(part):
    """Run a part. Return whether all its tests pass."""
    processes = ["-n", "2", "--dist", "loadfile"] if part in IN_TWO_PROCESSES else []
    command = [sys.executable, "-m", "pytest", "-m", "full and not deploy", *processes, *PARTS[part]]
    return subprocess.run(command, check=False).returncode == 0


def main(names):
    if unknown := set(names) - set(PARTS):
        click.echo(f"no such part: {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}", err=True)
        return 2
    red = [part for part in names or PARTS if not is_green(part)]
    click.echo(f"red: {', '.join(red)}" if red else "all green")
    return int(bool(red))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
