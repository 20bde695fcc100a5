"""Draw what a benchmark has measured over the size of what it measured, one small plot for each figure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

_WIDTH_IN, _HEIGHT_IN = 3.4, 2.6
_COLUMNS = 3
_MAX_TICKS = 9


def draw(path: Path, size: str, sizes: Sequence[float], figures: Mapping[str, Sequence[float]], where: str) -> None:
    """Write a picture with a plot of each figure over `sizes`; `size` names what they count, `where` the machine.

    A few sizes have a tick each on a logarithmic axis. Many are the minutes of a course.
    """
    is_course = len(sizes) > _MAX_TICKS
    columns = min(_COLUMNS, len(figures))
    rows = -(-len(figures) // columns)
    drawn, axes = plt.subplots(
        rows, columns, figsize=(columns * _WIDTH_IN, rows * _HEIGHT_IN), squeeze=False, layout="constrained"
    )
    for axis, (name, values) in zip(axes.flat, figures.items(), strict=False):
        axis.plot(sizes, values, marker="" if is_course else "o", color="#0072b2")
        axis.set_title(textwrap.fill(name, 36), fontsize=9)
        if not is_course:
            axis.set_xscale("log")
            axis.set_xticks(sizes, [f"{each:,}" for each in sizes])
            axis.minorticks_off()
        axis.set_ylim(0, 1.1 * max(values) or 1)
        axis.tick_params(labelsize=7)
        axis.set_xlabel(size, fontsize=8)
        axis.grid(visible=True, alpha=0.3)
    for unused in axes.flat[len(figures) :]:
        unused.set_visible(False)
    drawn.suptitle(where, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(drawn)
