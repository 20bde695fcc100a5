"""Which past snapshots stay readable: every young one, and the fewer the older they are.

A registry in which brokers come and go publishes 20,000 snapshots a day, and each holds files of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from namesrv_stream.rules.rows import SnapshotRow

DAY_MS = 24 * 3_600_000
YOUNG_STEP_MS = 5 * 60_000
OLD_STEP_MS = 3_600_000


class Kept(NamedTuple):
    """The snapshots that stay: every one from epoch `every_from` on, and of the older ones those in `single`."""

    every_from: int
    single: frozenset[int]


def kept_snapshots(rows: Iterable[SnapshotRow], now_ms: int, every_ms: int, retention_ms: int) -> Kept:
    """Return which snapshots stay readable at `now_ms`; the newest always does.

    Every one that is younger than `every_ms` stays; then the last of each five minutes for a day, and the last of each
    hour until `retention_ms`. Their steps are those of the clock, so the last of an hour is among the earlier ones.
    """
    in_order = sorted(rows, key=lambda row: row.epoch)
    young = [row.epoch for row in in_order if now_ms - row.published_at <= every_ms]
    every_from = min([*young, *(row.epoch for row in in_order[-1:])], default=0)
    last_of: dict[tuple[int, int], int] = {}
    for row in in_order:
        age_ms = now_ms - row.published_at
        if row.epoch < every_from and age_ms <= retention_ms:
            step_ms = YOUNG_STEP_MS if age_ms <= DAY_MS else OLD_STEP_MS
            last_of[step_ms, row.published_at // step_ms] = row.epoch
    return Kept(every_from, frozenset(last_of.values()))
