"""Follows the published snapshots in a thread, and has each ready before the event loop hears of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from deltalake.exceptions import DeltaError

from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, NotARegistryError, StorageError
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.reader import RegistryView, RouteReader
from namesrv_stream.tables.root import Root

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25
_STOP_LIMIT_S = 10.0

OnSnapshot = Callable[["FollowedSnapshot"], None]


class FollowedSnapshot:
    """A snapshot whose indexes are made, and in what it differs from the one before.

    `changed_tables`: names, all of them for the first snapshot. `changed_topics`: None if any topic may have changed.
    """

    def __init__(self, view: RegistryView, former: FollowedSnapshot | None) -> None:
        self.row: SnapshotRow = view.snapshot
        self.tables: RouteTables = view.routes
        self._loaded = view.tables
        before = former._loaded if former is not None else {}
        self.changed_tables = frozenset(name for name, table in view.tables.items() if before.get(name) is not table)
        self.changed_topics = view.changed_topics


class Follower:
    """Runs from `start` to `stop`. `on_snapshot` is called in its thread with each new snapshot, the newest one first,
    `on_nothing` each time the storage says that nothing is published.

    A registry that is not there yet, or not readable for a while, is waited for; the snapshot before is served on.
    """

    def __init__(self, root: Root, on_snapshot: OnSnapshot, on_nothing: Callable[[], None]) -> None:
        self._root = root
        self._on_snapshot = on_snapshot
        self._on_nothing = on_nothing
        self._reader: RouteReader | None = None
        self._latest: FollowedSnapshot | None = None
        self._view: Any = None
        self._problem: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> None:
        """Looks for snapshots from now on. A follower runs once."""
        self._thread.start()

    def stop(self) -> None:
        """Returns when it has ended, or after a while: storage that does not answer is not waited for."""
        self._stop.set()
        self._thread.join(_STOP_LIMIT_S)

    @property
    def problem(self) -> str | None:
        """Why no newer snapshot can be read, if that is so."""
        return self._problem

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
                self._problem = None
            except (NamesrvError, DeltaError, OSError) as error:
                said = error if isinstance(error, NamesrvError) else StorageError(self._root.url, str(error))
                self._say(str(said))
                self._reader = None  # a folder that was made anew is opened anew
                if isinstance(error, NotARegistryError | NoSuchSnapshotError):
                    self._on_nothing()
            except Exception as error:
                log.exception("the tables cannot be read")
                self._say(str(error))
            self._stop.wait(LOOK_EVERY_S)

    def _look(self) -> None:
        if self._reader is None:
            self._reader = RouteReader(self._root)
        view = self._reader.follow()
        if view is not self._view:
            self._latest = FollowedSnapshot(view, self._latest)
            self._view = view
            self._on_snapshot(self._latest)

    def _say(self, problem: str) -> None:
        """Once for each problem, not at every look."""
        if problem != self._problem:
            log.warning("no newer snapshot: %s", problem)
        self._problem = problem
