"""How answers look on a terminal: tables with little ink; plain columns where the output is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

import click
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from namesrv_stream.logs import printable

_PLAIN_WIDTH = 10_000
"""Of a line that goes into a file or a pipe: nothing is wrapped or cut."""

_PERMS = ((4, "R"), (2, "W"), (1, "X"))


def console() -> Console:
    """Standard output."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH, no_color=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, plain: bool) -> Table:
    """A column's name says how it looks: `#x` numbers, to the right; `x+` long text, which alone is wrapped;
    `x?` left out where it is empty; `x:` a group, whose cells are shown where they change.

    Plain output neither groups nor wraps.
    """
    rows = list(rows)
    kept = [i for i, name in enumerate(columns) if not name.endswith("?") or any(row[i] for row in rows)]
    grid = Table(
        box=None if plain else box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 2, 0, 0) if plain else (0, 1, 0, 0),
        show_edge=False,
        header_style="" if plain else "bold dim",
    )
    for index in kept:
        name = columns[index]
        justify: Literal["left", "right"] = "right" if name.startswith("#") and not plain else "left"
        grid.add_column(name.strip("#:?+"), justify=justify, overflow="fold", no_wrap="+" not in name)
    grouping = 0 if plain else sum(name.endswith(":") for name in columns)
    above: Sequence[object] = ()
    for row in rows:
        same = next((i for i in range(grouping) if not above or row[i] != above[i]), grouping)
        grid.add_row(*("" if index < same else _cell(row[index]) for index in kept))
        above = row
    return grid


def _cell(value: object) -> Text:
    return value if isinstance(value, Text) else Text("" if value is None else printable(str(value)))


def perm_text(perm: int) -> str:
    """RocketMQ's way of writing a perm: `RW-` for 6, as its admin tool has it; priority in front."""
    letters = "".join(letter if perm & bit else "-" for bit, letter in _PERMS)
    return f"P{letters}" if perm & 8 else letters


def time_text(epoch_ms: int | None) -> str:
    """Local time to the second; the day too unless it is today. `-` for none."""
    if epoch_ms is None:
        return "-"
    moment = datetime.fromtimestamp(epoch_ms / 1000).astimezone()
    is_today = moment.date() == datetime.now().astimezone().date()
    return moment.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S")


def iso_text(epoch_ms: int | None) -> str | None:
    """UTC with milliseconds, for JSON."""
    if epoch_ms is None:
        return None
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(millis: int) -> str:
    """The two greatest units: `3m 20s`, `2d 4h`, `12s`; below a second `0s`."""
    parts: list[str] = []
    rest = max(0, millis) // 1000
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def counted(count: int, noun: str) -> str:
    """`1 topic`, `20,000 topics`, `2 addresses`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def heading(left: str, right: str) -> Text:
    """A line above a table: what it shows in bold, where it comes from dimmed."""
    return Text.assemble((left, "bold"), "   ", (right, "dim"))


def print_shown(shown: Callable[[bool], RenderableType]) -> None:
    """Prints what `shown` gives for this output, which it is told to be plain or not."""
    output = console()
    if output.is_terminal:
        output.print(shown(False))
        return
    with output.capture() as captured:
        output.print(shown(True))
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
