"""Follow the published snapshots in a thread, and prepare each of them before the event loop receives it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from namesrv_stream.answers.events import addresses_that_left
from namesrv_stream.errors import NoSuchSnapshotError, NotARegistryError
from namesrv_stream.gateway.readers import READERS
from namesrv_stream.rules.lookup import RouteTables, topics_with_other_routes
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.damage import UNREADABLE
from namesrv_stream.tables.job_progress import ProgressFile, ProgressSign
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import LIVE
from namesrv_stream.tables.snapshot_reader import RegistryView, RouteReader, SnapshotThread
from namesrv_stream.wire.codes import RequestCode

log = logging.getLogger(__name__)

_LOOK_FOR_SIGN_EVERY_S = 5.0

SETTINGS_TABLE = "namesrv_config"
_TABLES_OF_A_ROUTE = READERS[RequestCode.GET_ROUTEINFO_BY_TOPIC].tables


class FollowedSnapshot:
    """A snapshot with its indexes, and its differences from the one before.

    `changed_tables`: names of tables, all of them for the first snapshot. `changed_routes`: the topics whose routes may
    have changed, None if any may have.
    """

    def __init__(self, view: RegistryView, former: FollowedSnapshot | None) -> None:
        self.view = view
        self.row: SnapshotRow = view.snapshot
        self.tables: RouteTables = view.routes
        before = former.view.tables if former is not None else {}
        self.changed_tables = frozenset(name for name, table in view.tables.items() if before.get(name) is not table)
        self.changed_routes: frozenset[str] | None = None
        if former is None or view.changed_topics is None or SETTINGS_TABLE in self.changed_tables:
            return
        self.changed_routes = frozenset()
        if not self.changed_tables.isdisjoint(_TABLES_OF_A_ROUTE):
            self.changed_routes = view.changed_topics | topics_with_other_routes(former.tables, self.tables)


class Follower(SnapshotThread):
    """Looks for new snapshots, in a thread, from `start` to `stop`.

    Its thread calls `on_snapshot` with the newest snapshot, then with each newer one that it finds. It calls
    `on_nothing` at each look that finds nothing published. If the registry does not exist yet or cannot be read, the
    thread looks again every LOOK_EVERY_S, and the gateway keeps serving the snapshot before.

    A snapshot without any broker replaces one with brokers only if the history says how each of them left, or that a
    person asked for it. Otherwise the former routes stay, and brokers register in full because no lease is known.
    """

    def __init__(
        self, root: Root, on_snapshot: Callable[[FollowedSnapshot], None], on_nothing: Callable[[], None]
    ) -> None:
        super().__init__(root, "follower", on_problem=self._note_nothing)
        self._on_snapshot = on_snapshot
        self._on_nothing = on_nothing
        self._latest: FollowedSnapshot | None = None
        self._read: RegistryView | None = None
        self._explained: RegistryView | None = None
        self._has_held = False
        self._progress = ProgressFile(root)
        self._sign_at_s = 0.0
        self.sign: ProgressSign | None = None
        """The job's newest sign of progress."""

    def look(self, reader: RouteReader) -> None:
        """Go to the newest snapshot."""
        if time.monotonic() - self._sign_at_s > _LOOK_FOR_SIGN_EVERY_S:
            self.sign, self._sign_at_s = self._progress.read(), time.monotonic()
        view = reader.follow()
        if view is not self._read:
            served = view if self._is_explained(view) else self._with_former_routes(view)
            if self._has_held and served is view:
                served = replace(view, changed_topics=None)  # its changes are those since a view that was not served
            self._has_held = served.tables is not view.tables
            self._latest = FollowedSnapshot(served, self._latest)
            self._explained = self._explained if self._has_held else view
            self._read = view
            self._on_snapshot(self._latest)

    def _note_nothing(self, problem: Exception) -> None:
        if isinstance(problem, NotARegistryError | NoSuchSnapshotError):
            self._on_nothing()

    def _is_explained(self, view: RegistryView) -> bool:
        """Return whether the snapshot has brokers, or the history says how those of the served snapshot left."""
        former = self._explained
        if former is None or not former.routes.brokers or view.routes.brokers:
            return True
        since = former.snapshot.epoch if former.registry == view.registry else 0
        try:
            left = addresses_that_left(self._root, view.snapshot, since)
        except UNREADABLE:
            return False
        return left is None or left.issuperset(
            row.broker_addr for ids in former.routes.brokers.values() for row in ids.values()
        )

    def _with_former_routes(self, view: RegistryView) -> RegistryView:
        assert self._explained is not None, "else the view is explained"
        log.warning(
            "epoch %d has no brokers, and the history does not say how those of epoch %d left: their routes are served "
            "on. `namesrv-stream doctor --tables` shows damage; a start of this gateway serves what the tables have",
            view.snapshot.epoch, self._explained.snapshot.epoch)  # fmt: skip
        live = {LIVE.name: view.tables[LIVE.name]}
        return replace(view, tables={**self._explained.tables, **live}, changed_topics=None)
