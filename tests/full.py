"""Runs the parts of `make test-full`, or those named: pytest once a part, with what the machine lacks said first.

A part whose machine lacks a program runs without the files that need it, and fails at its end, naming both.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
SYSTEM = "tests/system"
PARTS = {
    "s3": ["tests/s3"],
    "page": ["tests/console", "tests/notebooks"],
    "clients": [
        "tests/league",
        *(f"{SYSTEM}/test_{name}.py" for name in ("client_programs", "gateway_auth", "gateway_rocketmq")),
    ],
    "tables": [f"tests/{name}" for name in ("history", "packaging", "tables")],
    "job": [f"{SYSTEM}/test_{name}.py" for name in ("chaos", "cluster", "hostile_soak", "memory", "soak")],
    "system": ["tests"],
}
"""Name of a part -> its files and folders. `system`, the last one, has all that no other part has."""

IN_TWO_PROCESSES = {"clients", "tables", "system"}
"""Parts that pytest runs in two processes. The tests of the others fill the machine by themselves, or measure it."""

NEEDS = {
    "chromedriver": (
        "Debian's packages chromium and chromium-driver",
        ["tests/console/test_page.py", "tests/console/test_proxy.py"],
    ),
    "nginx": ("Debian's package nginx-light", ["tests/console/test_proxy.py"]),
    "promtool": ("Debian's package prometheus", ["tests/test_alerts.py"]),
    "go": ("Go", [f"{SYSTEM}/test_client_programs.py"]),
    "node": ("Node", [f"{SYSTEM}/test_client_programs.py"]),
    ".cache/s3/versitygw": (
        "Go, which builds it: make test-full",
        ["tests/s3/test_registry.py", "tests/s3/test_lost_answers.py"],
    ),
}
"""Program -> what has it, and the files that need it."""


def is_there(program):
    """Return whether the machine has a program; Debian puts servers where no user's PATH leads."""
    return bool(shutil.which(program) or shutil.which(f"/usr/sbin/{program}") or shutil.which(ROOT / program))


def options(part):
    """Return the arguments with which pytest runs a part."""
    others = [path for name, paths in PARTS.items() if name != part for path in paths]
    processes = ["-n", "2", "--dist", "loadfile"] if part in IN_TWO_PROCESSES else []
    return [*processes, *PARTS[part], *(f"--ignore={path}" for path in others if part == "system")]


def missing(part):
    """Return a line for each program of the part that the machine lacks, and the files that need them."""
    lines, left_out = [], set()
    for program, (source, files) in NEEDS.items():
        of_part = [each for each in files if part == owner(each)]
        if of_part and not is_there(program):
            lines.append(f"{part}: no {program}: needs {source}; not run: {' '.join(of_part)}")
            left_out.update(of_part)
    return lines, sorted(left_out)


def owner(path):
    """Return the part that runs a file: the one with its longest path."""
    holds = {
        name: held for name, paths in PARTS.items() for held in paths if path == held or path.startswith(f"{held}/")
    }
    return max(holds, key=lambda name: len(holds[name]))


def run(part):
    """Run a part. Return whether it is green and whole."""
    lines, left_out = missing(part)
    for line in lines:
        click.echo(line, err=True)
    command = [sys.executable, "-m", "pytest", "-m", "full and not deploy", *options(part)]
    done = subprocess.run([*command, *(f"--ignore={path}" for path in left_out)], cwd=ROOT, check=False)
    for line in lines:
        click.echo(line, err=True)
    return done.returncode == 0 and not lines


def main(names):
    if unknown := set(names) - set(PARTS):
        click.echo(f"no such part: {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}", err=True)
        return 2
    red = [part for part in names or PARTS if not run(part)]
    click.echo(f"not whole or red: {', '.join(red)}" if red else "all green")
    return int(bool(red))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
