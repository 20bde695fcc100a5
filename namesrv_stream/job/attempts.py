"""Counts attempts to run the query that failed in a row, and computes how long to wait before the next one."""

from __future__ import annotations

from dataclasses import dataclass

_RAN_FOR_A_WHILE_S = 120.0
"""A time that is longer than all attempts to reach a Kafka that is away may take."""

_LONGEST_PAUSE_S = 30.0
_UNKNOWN_BORNE = 2


@dataclass(slots=True)
class FailedAttempts:
    """The failures since the last attempt that ran for a while: all, and those of an unknown kind."""

    in_a_row: int = 0
    unknown_in_a_row: int = 0

    def add(self, ran_s: float, *, is_unknown: bool) -> None:
        """Count an attempt that failed after `ran_s` seconds."""
        if ran_s > _RAN_FOR_A_WHILE_S:
            self.in_a_row = self.unknown_in_a_row = 0
        self.in_a_row += 1
        self.unknown_in_a_row += is_unknown

    @property
    def are_a_defect(self) -> bool:
        """True if unknown failures came again and again: one may pass, as that of a lost Python worker does."""
        return self.unknown_in_a_row > _UNKNOWN_BORNE

    @property
    def pause_s(self) -> float:
        """The time to wait before the next attempt."""
        return min(_LONGEST_PAUSE_S, 2.0 ** (self.in_a_row - 1))
