"""Look for damaged tables while they are in use: a process that has them in memory would not notice it.

Each process that reads or writes the tables looks once in EVERY_S, whether each file of the newest snapshot is there.
`doctor --tables` reads them, too.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import Self

from deltalake.exceptions import DeltaError

from namesrv_stream.errors import (
    NamesrvError,
    NoSuchSnapshotError,
    NotARegistryError,
    PublicationLostError,
    StorageError,
    TableDamagedError,
)
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.damage import TableFiles, reporting_damage
from namesrv_stream.tables.repair import commit_tags, newest_tag
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER_EVENT, PINNED_TABLES
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tables.writer import CommitTag

log = logging.getLogger(__name__)

EVERY_S = 40.0
_PUBLISHED_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.2
_STOP_LIMIT_S = 10.0


def require_files(root: Root) -> None:
    """Raise TableDamagedError for a file of the newest snapshot that is missing or of another size.

    A registry without a snapshot has none.
    """
    with suppress(NotARegistryError, NoSuchSnapshotError):
        newest = SnapshotTable(root).newest()
        for spec in PINNED_TABLES:
            version, files = newest.versions[spec.name], TableFiles(root, spec)
            with reporting_damage(root, spec, version):
                sizes, stored = files.sizes(version), files.listed_sizes("")
            hurt = sorted(path for path, size in sizes.items() if stored.get(path) != size)
            if hurt and newest == SnapshotTable(root).newest():  # else maintenance may have removed what it names
                problem = "has another size than when it was written" if hurt[0] in stored else "is missing"
                raise TableDamagedError(root.url, spec.name, version, hurt[0], problem)


def has_later_lines(root: Root, row: SnapshotRow) -> bool:
    """Return whether the history has a commit of a later epoch than a snapshot: it is being published, or lost.

    Reads one commit, of the table that each change of a route writes.
    """
    return next(commit_tags(root, BROKER_EVENT), CommitTag(0, 0)).epoch > row.epoch


def require_publication(root: Root) -> None:
    """Raise PublicationLostError if tables have commits of an epoch that no row of `snapshot` has.

    Waits for a publication that is under way.
    """
    tag, until_s = newest_tag(root), time.monotonic() + _PUBLISHED_WITHIN_S
    while (newest := SnapshotTable(root).newest()).epoch < tag.epoch:
        if time.monotonic() > until_s:
            raise PublicationLostError(root.url, tag.epoch, newest.epoch, newest.offsets.get(0, 0))
        time.sleep(_LOOK_EVERY_S)


class DamageWatch:
    """Looks in a thread, within a `with` or from `start` to `stop`.

    `problem`: what the last look found, None if nothing. `is_damaged`: that is a file. A publication counts as lost if
    two looks in a row find it so: meanwhile it may end.
    """

    def __init__(self, root: Root) -> None:
        self.problem: str | None = None
        self.is_damaged = False
        self._unpublished = 0
        self._root = root
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="damage-watch", daemon=True)

    @property
    def damaged(self) -> str | None:
        """The damaged file that the last look found, None if there is none."""
        return self.problem if self.is_damaged else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the thread. It can be started once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its present look, which must not meet the end of the process; it waits 10 s at most."""
        self._stop.set()
        self._thread.join(_STOP_LIMIT_S)

    def look(self) -> None:
        """Look now, and log what has changed. A storage that does not answer leaves what was known."""
        try:
            self.is_damaged, found = False, self._lost_publication()
            require_files(self._root)
        except TableDamagedError as error:
            self.is_damaged, found = True, str(error)
        except (NamesrvError, DeltaError, OSError) as error:
            log.debug("this process cannot check the tables for damage: %s", StorageError(self._root.url, str(error)))
            return
        if found != self.problem:
            log.error("%s", found) if found else log.info("the tables can be read again: no file is damaged")
        self.problem = found

    def _lost_publication(self) -> str | None:
        before, self._unpublished = self._unpublished, newest_tag(self._root).epoch
        newest = SnapshotTable(self._root).newest()
        if newest.epoch >= self._unpublished or before != self._unpublished:
            return None
        return str(PublicationLostError(self._root.url, before, newest.epoch, newest.offsets.get(0, 0)))

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.look()
