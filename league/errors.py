"""What a scenario may find, and what keeps it from finding anything."""

from __future__ import annotations

from namesrv_stream.errors import NamesrvError


class NotRightError(NamesrvError):
    """A server did something else than what is right. `what` is about what, `seen` and `right` are values of it."""

    def __init__(self, what: str, seen: object, right: object) -> None:
        super().__init__(f"{what}: {shown(seen)} instead of {shown(right)}")
        self.what = what
        self.seen = seen
        self.right = right


class NotSettledError(NamesrvError):
    """A server did not come to rest: a registration that must be seen was not, so nothing follows from what is seen."""

    def __init__(self, server: str, what: str, limit_s: float) -> None:
        super().__init__(f"{server} did not {what} within {limit_s:g} s. Its log is in the folder given by --keep.")
        self.server = server


def shown(value: object) -> str:
    """A value in one short line of a table."""
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


_SHOWN = 90
