"""Find out how far the table `past_session` goes, from which the views read only the lines that have come since."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from namesrv_stream.errors import NotARegistryError
from namesrv_stream.tables.root import Root, query
from namesrv_stream.tables.schemas import BACK_MONTH, EVENT_MONTH, NOT_BACK, PAST_SESSION

LATEST_OF_BROKERS = f"{BACK_MONTH} = '{NOT_BACK}'"
"""SQL condition of the latest session of each broker."""

_SLACK = timedelta(days=1)
"""Time by which a line may be older than the newest one before it: between two ticks Kafka's clock may step back."""


class PastSessions(NamedTuple):
    """Version of the table `past_session`, and the epoch and the time up to which it has the sessions."""

    version: int
    epoch: int
    time: datetime

    @property
    def condition(self) -> str:
        """The SQL condition of the sessions that count: a run of maintenance that died may have left later ones."""
        return f"as_of_epoch <= {self.epoch}"

    @property
    def lines_since(self) -> str:
        """The SQL condition of the lines of the history that have come since; of older months none is read."""
        month = f"{self.time.astimezone(UTC) - _SLACK:%Y-%m}"
        return f"epoch > {self.epoch} AND {EVENT_MONTH} >= '{month}'"


def past_sessions(root: Root, epoch: int) -> PastSessions | None:
    """Return what is kept as of an epoch, None if nothing is, or only as of a later one."""
    try:
        table = root.open(PAST_SESSION)
    except NotARegistryError:
        return None
    newest = f"SELECT max(as_of_epoch) AS epoch, max(as_of_time) AS time FROM rows WHERE {LATEST_OF_BROKERS}"
    kept = query(table, newest).to_pylist()[0]
    if kept["epoch"] is None or kept["epoch"] > epoch:
        return None
    return PastSessions(table.version(), kept["epoch"], kept["time"])
