"""Find out how far the table `past_session` goes, from which the views read only the lines that have come since."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_stream.errors import NotARegistryError
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.root import Root, query
from namesrv_stream.tables.schemas import BACK_MONTH, BROKER_EVENT, EVENT_MONTH, NOT_BACK, PAST_SESSION

LATEST_OF_BROKERS = f"{BACK_MONTH} = '{NOT_BACK}'"
"""SQL condition of the latest session of each broker."""

_AFTER_ALL_MONTHS = "9999-99"


class PastSessions(NamedTuple):
    """Version of the table `past_session`, the epoch up to which it has the sessions, and the first month since.

    `first_month`: no line that has come since is of a month before.
    """

    version: int
    epoch: int
    first_month: str

    @property
    def condition(self) -> str:
        """The SQL condition of the sessions that count: a run of maintenance that died may have left later ones."""
        return f"as_of_epoch <= {self.epoch}"

    @property
    def lines_since(self) -> str:
        """The SQL condition of the lines of the history that have come since; of older months none is read."""
        return f"epoch > {self.epoch} AND {EVENT_MONTH} >= '{self.first_month}'"


def past_sessions(root: Root, snapshot: SnapshotRow) -> PastSessions | None:
    """Return what is kept as of a snapshot, None if nothing is, or only as of a later one."""
    try:
        table = root.open(PAST_SESSION)
    except NotARegistryError:
        return None
    [newest] = query(table, f"SELECT max(as_of_epoch) AS epoch FROM rows WHERE {LATEST_OF_BROKERS}").to_pylist()
    epoch = newest["epoch"]
    if epoch is None or epoch > snapshot.epoch:
        return None
    months = files_since(root, snapshot, epoch)[f"partition.{EVENT_MONTH}"].to_pylist()
    return PastSessions(table.version(), epoch, min(months, default=_AFTER_ALL_MONTHS))


def files_since(root: Root, snapshot: SnapshotRow, epoch: int) -> pa.Table:
    """Return the files of the history that may have a line after `epoch`, one a row, by their statistics alone."""
    events = root.open(BROKER_EVENT, snapshot.versions[BROKER_EVENT.name])
    files = pa.table(events.get_add_actions(flatten=True))
    if "max.epoch" not in files.column_names:  # no file, or none with statistics
        return files
    return files.filter(pc.fill_null(pc.greater(files["max.epoch"], epoch), fill_value=True))
