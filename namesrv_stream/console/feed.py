"""Follows the published snapshots in a thread, one epoch after the other, and hands each to the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from deltalake.exceptions import DeltaError

from namesrv_stream.console.kept_snapshots import KeptSnapshots
from namesrv_stream.errors import NamesrvError, StorageError
from namesrv_stream.reporting.logs import Kinds
from namesrv_stream.tables.schemas import SNAPSHOT
from namesrv_stream.tables.snapshot_reader import RegistryView, RouteReader

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25
"""The pause between two looks at an object store."""

LOOK_AT_FOLDER_EVERY_S = 0.01
"""The pause between two looks at a local folder, each of which reads the time of its last change."""

LOOK_ANYWAY_AFTER_S = 1.0
"""The pause after which a local folder is read even if its time has not changed: some file systems are late."""

MOST_STEPS = 100
"""Most epochs that are read one by one. A console that is further behind goes on from the newest, with a reset."""

_STOP_LIMIT_S = 10.0


class Feed:
    """Looks for new snapshots from `start` to `stop`, and calls `on_view` with each in the event loop.

    The snapshots come in order of the epoch. None is left out unless the console is far behind, or one is gone.
    """

    def __init__(self, kept: KeptSnapshots, on_view: Callable[[RegistryView], None]) -> None:
        self._kept = kept
        self._on_view = on_view
        self._loop = asyncio.get_running_loop()
        self._reader: RouteReader | None = None
        self._folder = kept.root.local_log(SNAPSHOT)
        self._seen_ns = 0
        self._looked_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._kinds = Kinds()
        self.problem: str | None = None
        """The reason why no newer snapshot can be read; None if there is no such reason."""

    def start(self) -> None:
        """Start the thread. A feed can be started once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Return after 10 s even if it still runs: the storage may not answer."""
        self._stop.set()
        self._thread.join(_STOP_LIMIT_S)

    def _run(self) -> None:
        pause_s = LOOK_EVERY_S if self._folder is None else LOOK_AT_FOLDER_EVERY_S
        while not self._stop.wait(pause_s if self.problem is None else LOOK_EVERY_S):
            try:
                if self._is_due():
                    self._look()
                self.problem = None
            except Exception as error:
                self._note(error)

    def _is_due(self) -> bool:
        """Return whether a commit may have come since the last look. On an object store only a look can tell."""
        if self._folder is None or not self._folder.exists():
            return True
        changed_ns, now_s = self._folder.stat().st_mtime_ns, time.monotonic()
        if changed_ns == self._seen_ns and now_s - self._looked_s < LOOK_ANYWAY_AFTER_S:
            return False
        self._seen_ns, self._looked_s = changed_ns, now_s
        return True

    def _look(self) -> None:
        """Go to the newest snapshot, over each one in between."""
        was_open, self._reader = self._reader is not None, self._reader or RouteReader(self._kept.root)
        has_changed, known = self._reader.refresh(), self._kept.newest
        if was_open and not has_changed:
            return
        if known is None or known.registry != self._reader.snapshots.registry:
            rows, known = [self._reader.snapshots.newest()], None
        else:
            rows = self._reader.snapshots.after(known.snapshot.epoch)
        for row in rows if len(rows) <= MOST_STEPS else rows[-1:]:
            known = self._reader.view(row, known)
            _ = known.routes  # the indexes are made in this thread
            self._kept.follow(known)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._on_view, known)

    def _note(self, error: Exception) -> None:
        """Log a problem once a minute, not at every look."""
        self._reader, self._seen_ns = None, 0  # a folder that was made anew is opened anew
        if isinstance(error, DeltaError | OSError):
            error = StorageError(self._kept.root.url, str(error))
        if self._kinds.is_due(error):
            log.warning("no newer snapshot: %s", error, exc_info=not isinstance(error, NamesrvError))
        self.problem = str(error)
