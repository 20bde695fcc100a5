"""The job's sign of progress: one small file beside the tables, for the time in which it publishes nothing.

While nothing but signs of life comes, the newest snapshot is as true as on the day it was published, and the sign says
up to where in the log that holds. It is written anew in one place, so it adds no file and no version of a table.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.root import Root

log = logging.getLogger(__name__)

NAME = "_progress.json"
_BUFFER_BYTES = 4096


class ProgressSign(msgspec.Struct, frozen=True, rename="camel"):
    """The job of `term` has read the log up to `offsets` at `written_at`, and epoch `epoch` still holds.

    `late_from`: the append time from which on a lease is late, if its broker stays silent; None without a lease.
    """

    epoch: int
    term: int
    written_at: int
    event_time: int | None
    offsets: dict[int, int]
    late_from: int | None = None

    def is_about(self, row: SnapshotRow) -> bool:
        """Return whether the sign is about this snapshot, the newest one, and younger."""
        return (self.epoch, self.term) == (row.epoch, row.term) and self.written_at >= row.published_at

    def brought_to(self, row: SnapshotRow) -> SnapshotRow:
        """Return the newest snapshot row, with the sign's times and offsets if the sign is about that snapshot."""
        if not self.is_about(row):
            return row
        return row._replace(published_at=self.written_at, event_time=self.event_time, offsets=self.offsets)


@dataclass(frozen=True)
class ProgressFile:
    """The sign of one registry, on a disk or in an object store."""

    root: Root

    def write(self, sign: ProgressSign) -> None:
        """Replace the sign. Raises OSError if the storage does not take it."""
        with PyFileSystem(self._storage).open_output_stream(NAME, buffer_size=_BUFFER_BYTES) as file:
            file.write(msgspec.json.encode(sign))

    def read(self) -> ProgressSign | None:
        """Return the sign, None if there is none that can be read."""
        try:
            with self._storage.open_input_file(NAME) as file:
                return msgspec.json.decode(file.readall(), type=ProgressSign)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            log.debug("the job's sign of progress cannot be read: %s", error)
            return None

    def row_now(self, newest: SnapshotRow) -> SnapshotRow:
        """Return the newest snapshot row as it holds now. Without a sign about it that is the row itself."""
        sign = self.read()
        return newest if sign is None else sign.brought_to(newest)

    @property
    def _storage(self) -> DeltaStorageHandler:
        return DeltaStorageHandler(self.root.url, dict(self.root.storage_options or {}))
