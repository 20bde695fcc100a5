"""Where the past is not known: lost rows of the history, which the newest snapshot names (`Hole` in rules/rows.py).

The tables of a moment after the last hole follow from the newest ones and later changes, those of a moment before the
first one from the changes up to it. Between the two nothing is known for certain.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple, Self

from namesrv_stream.errors import PastUnknownError
from namesrv_stream.reporting.texts import listed, moment_text
from namesrv_stream.rules.rows import Hole, SnapshotRow
from namesrv_stream.tables.schemas import BROKER_EVENT

_FEW = 3


class UnknownPast(NamedTuple):
    """The stretch from the first lost row of the history to the last one; the fields are those of a `Hole`."""

    from_epoch: int
    to_epoch: int
    from_millis: int | None
    until_millis: int
    holes: tuple[Hole, ...]

    @classmethod
    def of(cls, snapshot: SnapshotRow) -> Self | None:
        """Return the stretch that a snapshot row names, None if no row of the history was ever lost."""
        return cls.joined(snapshot.holes) if snapshot.holes else None

    @classmethod
    def of_tables(cls, snapshot: SnapshotRow) -> Self | None:
        """Return the stretch in which tables of epochs are not known: they need no row of `broker_event`."""
        holes = tuple(each for each in snapshot.holes if each.table_name != BROKER_EVENT.name)
        return cls.joined(holes) if holes else None

    @classmethod
    def reaching(cls, snapshot: SnapshotRow) -> Self | None:
        """Return the stretch if it begins before the end of a snapshot."""
        unknown = cls.of(snapshot)
        return unknown if unknown is not None and unknown.from_epoch <= snapshot.epoch else None

    @classmethod
    def joined(cls, holes: tuple[Hole, ...]) -> Self:
        """Return the stretch of one or more holes."""
        begins = [each.from_millis for each in holes]
        return cls(
            min(each.from_epoch for each in holes),
            max(each.to_epoch for each in holes),
            None if None in begins else min(filter(None, begins), default=None),
            max(each.until_millis for each in holes),
            holes,
        )

    def hole(self, table_name: str, to_epoch: int, until_millis: int, repaired_millis: int) -> Hole:
        """Return the hole of a table that a repair had to make from a history with this stretch."""
        return Hole(table_name, self.from_epoch, to_epoch, self.from_millis, until_millis, repaired_millis)

    @property
    def stretch(self) -> str:
        """The bounds of this stretch."""
        end = moment_text(self.until_millis)
        begin = "to" if self.from_millis is None else f"from {moment_text(self.from_millis)} to"
        begin = "at" if begin == f"from {end} to" else begin
        first, last = self.from_epoch, self.to_epoch
        epochs = f"epoch {first}" if first == last else f"epochs {first} to {last}"
        return f"{begin} {end} ({epochs})"

    @property
    def sentence(self) -> str:
        """The statement that this stretch is not known, and why."""
        names = sorted({each.table_name for each in self.holes})
        tables = listed(names) if len(names) <= _FEW else f"{len(names)} tables"
        times = list(dict.fromkeys(moment_text(each.repaired_millis) for each in self.holes))
        repairs = f"repair{'s' if len(times) > 1 else ''} at {listed(times)}"
        return f"The history {self.stretch} is not known: rows of {tables} were lost in the {repairs}."

    def warn_of_views(self) -> None:
        """Warn the caller of the function that calls this: views of the history begin after this stretch."""
        warnings.warn(f"{self.sentence} Views of the history begin after it; see known_from.", stacklevel=3)

    @property
    def error(self) -> PastUnknownError:
        """The error for a question about this stretch."""
        before = "" if self.from_millis is None else f" or before {moment_text(self.from_millis)}"
        step = f"Ask about a time from {moment_text(self.until_millis)} on{before}."
        return PastUnknownError(f"{self.sentence[:1].lower()}{self.sentence[1:]} {step}", self)
