"""The errors of a scenario: a wrong result, or a server that does not settle."""

from __future__ import annotations

from namesrv_stream.errors import NamesrvError


class NotRightError(NamesrvError):
    """A server did not do the right thing. `what` names the subject; `seen` and `right` are its values."""

    def __init__(self, what: str, seen: object, right: object) -> None:
        super().__init__(f"{what}: {shown(seen)} instead of {shown(right)}")
        self.what = what
        self.seen = seen
        self.right = right


class NotSettledError(NamesrvError):
    """A server did not settle.

    A registration that must be seen was not seen, so nothing follows from anything else that is seen.
    """

    def __init__(self, server: str, what: str, limit_s: float) -> None:
        super().__init__(f"{server} did not {what} within {limit_s:g} s. Its log is in the folder given by --keep.")
        self.server = server


def shown(value: object) -> str:
    """Return a value as one short line of a table."""
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


_SHOWN = 90
