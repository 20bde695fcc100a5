"""Keep snapshots in memory for all requests: each is read once, and only where it differs from a kept one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TypeVar

from deltalake.exceptions import DeltaError

from namesrv_stream.answers.accounts import Comparison, comparison
from namesrv_stream.answers.subject import Seen
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import SnapshotGoneError, StorageError
from namesrv_stream.reporting.recent import Recent
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.as_of import AsOf, Past
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RegistryView, RouteReader, view_as_of

T = TypeVar("T")

MAX_VIEWS = 256
MAX_ROWS = 2_000_000
"""Limit of the topics of all kept views. Neighbouring views share topics, distant ones do not."""

MAX_LEASES = 8_000
"""Limit of the leases of all kept views, which neighbours do not share, as each has other signs of life."""

MAX_ANSWERS = 100


class KeptSnapshots:
    """The snapshots of one registry. Thread-safe; a call may wait for the storage.

    Raises NamesrvError if the tables cannot be read or have no such snapshot.
    """

    def __init__(self, root: Root, settings: NamesrvSettings) -> None:
        """Open a registry; `settings` are those with which the console was started."""
        self.root = root
        self.settings = settings
        self.newest: RegistryView | None = None
        """The newest snapshot that the console follows, None before the first."""
        self._reader: RouteReader | None = None
        self._registry = ""
        self._lock = threading.RLock()
        self._views: OrderedDict[int, RegistryView] = OrderedDict()
        self._answers = Recent[bytes](MAX_ANSWERS)
        self._compared = lru_cache(maxsize=1)(self._comparison)

    def follow(self, view: RegistryView) -> None:
        """Go on to a newer snapshot."""
        with self._lock:
            self._belong_to(view.registry)
            self._keep(view)
            self.newest = view
            self._compared.cache_clear()

    def past(self, moment: AsOf) -> Past:
        """Return the registry as of a moment; the newest snapshot for a moment without an epoch and a time."""
        if moment == AsOf() and self.newest is not None:
            return Past(self.root, moment, self.newest.snapshot, self.newest.snapshot)
        return self.read(lambda reader: reader.past(moment))

    def since(self, epoch: int) -> list[SnapshotRow]:
        """Return the row of an epoch and those of all higher ones, lowest first. Raises SnapshotGoneError."""
        first, later = self.read(lambda reader: (reader.snapshots.find(epoch), reader.snapshots.after(epoch)))
        if later and later[0].epoch != epoch + 1:
            raise SnapshotGoneError(f"epoch {epoch + 1}", later[0].epoch)
        return [first, *later]

    def view(self, row: SnapshotRow) -> RegistryView:
        """Return the view of a row."""
        with self._lock:
            view = self._views.get(row.epoch)
            if view is None or view.snapshot != row:
                view = self.read(lambda reader: reader.view(row, self._nearest(row.epoch)))
            self._keep(view)
            return view

    def seen(self, past: Past) -> Seen:
        """Return the subject of questions about a moment."""
        return Seen.of(self.root, view_as_of(past, self.view(past.base)), self.settings)

    def compare(self, before: AsOf, after: AsOf) -> Comparison:
        """Return the differences between two moments, kept until the next snapshot for readers who page through."""
        newest = self.read(lambda reader: reader.snapshots.newest())
        return self._compared(before, after, (newest.epoch, newest.published_at))

    def _comparison(self, before: AsOf, after: AsOf, _newest: tuple[int, int]) -> Comparison:
        return self.read(lambda reader: comparison(reader, self.root, before, after))

    def answer(self, question: Hashable, compute: Callable[[], bytes]) -> bytes:
        """Return the answer to a question, computed once. The question names the snapshot of its answer."""
        return self._answers.get(question, compute)

    def read(self, read: Callable[[RouteReader], T]) -> T:
        """Return what `read` reads from the tables as they are now. One thread reads at a time."""
        with self._lock:
            try:
                self._reader = self._reader or RouteReader(self.root)
                self._reader.refresh()
                self._belong_to(self._reader.snapshots.registry)
                return read(self._reader)
            except (DeltaError, OSError) as error:
                self._reader = None  # the folder may have been made anew, so open it anew
                raise StorageError(self.root.url, str(error)) from error

    def _belong_to(self, registry: str) -> None:
        """Forget all views if they are of another registry, because the tables were made anew."""
        if registry != self._registry:
            self._views.clear()
        self._registry = registry

    def _keep(self, view: RegistryView) -> None:
        """Keep a view, and beyond the limits forget the views that were used longest ago."""
        self._views[view.snapshot.epoch] = view
        self._views.move_to_end(view.snapshot.epoch)
        of_topics, of_leases = MAX_ROWS // (1 + len(view.routes.queues)), MAX_LEASES // (1 + len(view.routes.live))
        while len(self._views) > max(4, min(MAX_VIEWS, of_topics, of_leases)):
            self._views.popitem(last=False)

    def _nearest(self, epoch: int) -> RegistryView | None:
        """Return the kept view of the highest epoch below, from which its changes lead to the next."""
        return self._views.get(max((each for each in self._views if each < epoch), default=0))
