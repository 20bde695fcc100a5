"""Follow the published snapshots in a thread, and prepare each of them before the event loop receives it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from namesrv_stream.answers.events import addresses_that_left
from namesrv_stream.errors import NoSuchSnapshotError, NotARegistryError
from namesrv_stream.gateway.readers import READERS
from namesrv_stream.rules.lookup import topics_with_other_routes
from namesrv_stream.tables.damage import UNREADABLE
from namesrv_stream.tables.following import SnapshotThread
from namesrv_stream.tables.job_progress import ProgressFile, ProgressSign
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.registry import Registry
from namesrv_stream.wire.codes import RequestCode

log = logging.getLogger(__name__)

_LOOK_FOR_SIGN_EVERY_S = 5.0

SETTINGS_TABLE = "namesrv_config"
_TABLES_OF_A_ROUTE = READERS[RequestCode.GET_ROUTEINFO_BY_TOPIC].tables


class Follower(SnapshotThread):
    """Looks for new snapshots, in a thread, from `start` to `stop`.

    Its thread calls `on_snapshot` with the newest snapshot, its routes loaded, then with each newer one that it finds;
    and with the names of the tables that have changed since the one before, all of them for the first, and the topics
    whose routes may have changed, None if any may have. It calls
    `on_nothing` at each look that finds nothing published. If the registry does not exist yet or cannot be read, the
    thread looks again every LOOK_EVERY_S, and the gateway keeps serving the snapshot before.

    A snapshot without any broker replaces one with brokers only if the history says how each of them left, or that a
    person asked for it. Otherwise the former routes stay, and brokers register in full because no lease is known.
    """

    def __init__(
        self,
        registry: Registry,
        on_snapshot: Callable[[RegistryAt, frozenset[str], frozenset[str] | None], None],
        on_nothing: Callable[[], None],
    ) -> None:
        super().__init__(registry, "follower", on_problem=self._note_nothing)
        self._on_snapshot = on_snapshot
        self._on_nothing = on_nothing
        self._read: RegistryAt | None = None
        self._served: RegistryAt | None = None
        self._explained: RegistryAt | None = None
        self._progress = ProgressFile(registry.root)
        self._sign_at_s = 0.0
        self.sign: ProgressSign | None = None
        """The job's newest sign of progress."""

    def look(self) -> None:
        """Go to the newest snapshot."""
        newest = self._registry.newest()
        if time.monotonic() - self._sign_at_s > _LOOK_FOR_SIGN_EVERY_S:
            self.sign, self._sign_at_s = self._progress.read(), time.monotonic()
        if newest is self._read:
            return
        _ = newest.routes  # in this thread: the event loop reads no table
        is_explained = self._is_explained(newest)
        served = newest if is_explained else self._with_former_routes(newest)
        former, self._served, self._read = self._served, served, newest
        self._explained = newest if is_explained else self._explained
        self._on_snapshot(served, *_changes(served, former))

    def _note_nothing(self, problem: Exception) -> None:
        if isinstance(problem, NotARegistryError | NoSuchSnapshotError):
            self._on_nothing()

    def _is_explained(self, newest: RegistryAt) -> bool:
        """Return whether the snapshot has brokers, or the history says how those of the served snapshot left."""
        former = self._explained
        if former is None or not former.brokers or newest.brokers:
            return True
        since = former.snapshot.epoch if former.identity == newest.identity else 0
        try:
            left = addresses_that_left(newest, since)
        except UNREADABLE:
            return False
        return left is None or left.issuperset(
            row.broker_addr for ids in former.brokers.values() for row in ids.values()
        )

    def _with_former_routes(self, newest: RegistryAt) -> RegistryAt:
        assert self._explained is not None, "else the snapshot is explained"
        log.warning(
            "snapshot %d has no brokers, and the history does not show an end of those of snapshot %d; the gateway "
            "keeps their routes until its next start. Find the damage with `namesrv-stream doctor --tables`.",
            newest.snapshot.epoch, self._explained.snapshot.epoch)  # fmt: skip
        return newest.with_routes_of(self._explained)


def _changes(served: RegistryAt, former: RegistryAt | None) -> tuple[frozenset[str], frozenset[str] | None]:
    """Return the tables that have changed since a former snapshot, and the topics whose routes may have."""
    tables = served.changed_tables(former)
    topics = None if former is None else served.changed_topics(former)
    if former is None or topics is None or SETTINGS_TABLE in tables:
        return tables, None
    if tables.isdisjoint(_TABLES_OF_A_ROUTE):
        return tables, frozenset()
    return tables, topics | topics_with_other_routes(former.routes, served.routes)
