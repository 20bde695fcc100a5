"""Print answers: as tables with few lines on a terminal, as plain columns elsewhere, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import click
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from namesrv_stream.errors import masked
from namesrv_stream.reporting.logs import printable
from namesrv_stream.reporting.texts import SHOWN_ZONE, is_of_two_offsets
from namesrv_stream.wire.json_text import encode_json

_PLAIN_WIDTH = 10_000
"""Width of a line that is written to a file or a pipe: nothing is wrapped or cut."""


LEVELS = {"ok": "green", "warning": "yellow", "critical": "bold red"}
"""Level of a verdict -> its colour."""


def console(*, stderr: bool = False) -> Console:
    """Return a rich console for standard output or standard error.

    To rich FORCE_COLOR makes a terminal of a file. What is read by programs would get frames, a width and full screens.
    """
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    terminal = Console(highlight=False, stderr=stderr, force_terminal=None if is_terminal else False)
    if terminal.is_terminal:
        return terminal
    return Console(highlight=False, stderr=stderr, force_terminal=False, width=_PLAIN_WIDTH, no_color=True)


@dataclass
class Rows:
    """A table whose column names set the layout. Its rows are read when it is first printed.

    `#x` holds numbers and is aligned right. `x+` holds long text. `x?` is left out if all
    its cells are empty. `x:` is a group: its cell is shown only if it differs from the one above. Output that is no
    terminal has no groups, alignment or wrapping.
    """

    columns: Sequence[str]
    rows: Iterable[Sequence[object]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield rich's table."""
        self.rows = rows = list(self.rows)
        plain = not console.is_terminal
        kept = [i for i, name in enumerate(self.columns) if not name.endswith("?") or any(row[i] for row in rows)]
        grid = Table(
            box=None if plain else box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 2, 0, 0) if plain else (0, 1, 0, 0),
            show_edge=False,
            header_style="" if plain else "bold dim",
        )
        for name in (self.columns[index] for index in kept):
            justify: Literal["left", "right"] = "right" if name.startswith("#") and not plain else "left"
            grid.add_column(name.strip("#:?+"), justify=justify, overflow="fold", no_wrap=plain or name.startswith("#"))
        grouping = 0 if plain else sum(name.endswith(":") for name in self.columns)
        above: Sequence[object] = ()
        for row in rows:
            same = next((i for i in range(grouping) if not above or row[i] != above[i]), grouping)
            grid.add_row(*("" if index < same else _cell(row[index]) for index in kept))
            above = row
        yield grid


def _cell(value: object) -> Text:
    """Return a value as text, in quotes if it begins or ends with a blank, which would be invisible."""
    if isinstance(value, Text):
        return value
    text = "" if value is None else printable(str(value))
    return Text(text if text == text.strip() else f'"{text}"')


def time_text(at: int | None, *, with_zone: bool = False) -> str:
    """Return a time in epoch milliseconds, by the second in the shown zone; its day too if not today.

    Times of a day on which the clocks change have their zone, because one hour of it may come twice.
    """
    if at is None:
        return "-"
    zone = SHOWN_ZONE.get()
    moment = datetime.fromtimestamp(at / 1000, zone)
    is_today = moment.date() == datetime.now(zone).date()
    return moment.strftime(
        ("" if is_today else "%Y-%m-%d ") + "%H:%M:%S" + (" %Z" if with_zone or is_of_two_offsets(moment) else "")
    )


def heading(left: str, right: str) -> Text:
    """Return the line above a table: its subject in bold, its source dimmed."""
    return Text.assemble((left, "bold"), "   ", (right, "dim"))


def print_answer(value: object, shown: RenderableType, *, as_json: bool) -> None:
    """Print an answer on standard output: `value` as JSON, or `shown`."""
    output = console()
    if as_json:
        click.echo(encode_json(value, str))  # str makes ISO 8601 of times
    elif output.is_terminal:
        output.print(shown)
    else:
        with output.capture() as captured:
            output.print(shown)
        for line in captured.get().splitlines():
            click.echo(line.rstrip())


def say(message: str) -> None:
    """Print a message on standard error, so that standard output has only the answer."""
    click.echo("\n".join(map(printable, f"namesrv-stream: {masked(message)}".split("\n"))), err=True)
