"""Keeps snapshots in memory for all who ask: each is read once, and only where it differs from one that is kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

from deltalake.exceptions import DeltaError

from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, SnapshotGoneError, StorageError
from namesrv_stream.history.events import AsOf
from namesrv_stream.questions.accounts import Comparison, comparison
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RegistryView, RouteReader

T = TypeVar("T")

MOST_VIEWS = 256
MOST_ROWS = 2_000_000
"""Limit of the topics of all views that are kept: neighbouring views share them, distant ones do not."""

MOST_ANSWERS = 2_000
MOST_ANSWER_BYTES = 64 * 1024 * 1024


class KeptSnapshots:
    """The snapshots of one registry. Thread-safe; a call may block on the storage.

    Raises NamesrvError if the tables cannot be read or have no such snapshot.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self._reader: RouteReader | None = None
        self._lock = threading.RLock()
        self._views: OrderedDict[int, RegistryView] = OrderedDict()
        self._compared: tuple[tuple[AsOf, AsOf, SnapshotRow], Comparison] | None = None
        self._answers = _Answers()

    def find(self, moment: AsOf) -> SnapshotRow:
        """Return the row of a moment; the newest row for a moment without an epoch and a time."""
        with self._lock:
            kept = self._views.get(moment.epoch or 0)
            if kept is not None:
                return kept.snapshot
            return self.read(lambda reader: reader.snapshots.find(moment.epoch, moment.at_ms))

    def after(self, epoch: int) -> list[SnapshotRow]:
        """Return the rows of higher epochs that can be read, lowest first. Raises SnapshotGoneError if one is gone."""
        return self.read(lambda reader: _after(reader, epoch))

    def view(self, row: SnapshotRow) -> RegistryView:
        """Return the view of a row."""
        with self._lock:
            view = self._views.get(row.epoch)
            if view is None or view.snapshot != row:
                view = self.read(lambda reader: reader.view(row, self._nearest(row.epoch)))
            self.keep(view)
            return view

    def keep(self, view: RegistryView) -> None:
        """Keep a view for those who will ask for it, and forget the ones that were asked for longest ago."""
        with self._lock:
            self._views[view.snapshot.epoch] = view
            self._views.move_to_end(view.snapshot.epoch)
            while len(self._views) > max(4, min(MOST_VIEWS, MOST_ROWS // (1 + len(view.routes.queues)))):
                self._views.popitem(last=False)

    def forget(self) -> None:
        """Forget all views: the tables are those of another registry now."""
        with self._lock:
            self._views.clear()
            self._reader = None

    def compare(self, before: AsOf, after: AsOf) -> Comparison:
        """Return the differences between two moments. The last ones are kept for whoever reads them page by page."""
        with self._lock:
            newest = self.read(lambda reader: reader.snapshots.newest())
            asked = (before, after, newest)
            if self._compared is None or self._compared[0] != asked:
                self._compared = asked, self.read(lambda reader: comparison(reader, self.root, before, after))
            return self._compared[1]

    def answer(self, row: SnapshotRow, question: Hashable, compute: Callable[[], bytes]) -> bytes:
        """Return the answer to a question about a snapshot, computed once. An answer must follow from the tables."""
        key = (row.epoch, row.published_at, question)
        kept = self._answers.get(key)
        if kept is None:
            kept = compute()
            self._answers.put(key, kept)
        return kept

    def _nearest(self, epoch: int) -> RegistryView | None:
        """Return the kept view of the highest epoch below: a change feed leads from it to the next."""
        return self._views.get(max((each for each in self._views if each < epoch), default=0))

    def read(self, read: Callable[[RouteReader], T]) -> T:
        """Return what `read` reads from the tables as they are now. One thread reads at a time."""
        with self._lock:
            try:
                if self._reader is None:
                    self._reader = RouteReader(self.root)
                former = self._reader.snapshots.table_id
                self._reader.refresh()
                if self._reader.snapshots.table_id != former:
                    self._views.clear()
                return read(self._reader)
            except NamesrvError:
                raise
            except (DeltaError, OSError) as error:
                self._reader = None  # a folder that was made anew is opened anew
                raise StorageError(self.root.url, str(error)) from error


def _after(reader: RouteReader, epoch: int) -> list[SnapshotRow]:
    rows = reader.snapshots.after(epoch)
    if rows and rows[0].epoch != epoch + 1:
        raise SnapshotGoneError(f"epoch {epoch + 1}", rows[0].epoch)
    newest = rows[-1].epoch if rows else reader.snapshots.newest().epoch
    if epoch > newest:
        raise NoSuchSnapshotError(f"epoch {epoch}", newest)
    return rows


class _Answers:
    """Answers by question, the least recently used of which are forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> bytes | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: Hashable, answer: bytes) -> None:
        with self._lock:
            self._bytes += len(answer) - len(self._kept.pop(key, b""))
            self._kept[key] = answer
            while len(self._kept) > MOST_ANSWERS or self._bytes > MOST_ANSWER_BYTES:
                self._bytes -= len(self._kept.popitem(last=False)[1])
