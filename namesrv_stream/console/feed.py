"""Follows the published snapshots in a thread, one epoch after the other, and hands each to the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deltalake.exceptions import DeltaError

from namesrv_stream.console.kept_snapshots import KeptSnapshots
from namesrv_stream.errors import NamesrvError, StorageError
from namesrv_stream.reporting.logs import Kinds
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT
from namesrv_stream.tables.snapshot_reader import RegistryView, RouteReader

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25
"""The pause between two looks at an object store."""

LOOK_AT_FOLDER_EVERY_S = 0.01
"""The pause between two looks at a local folder, each of which reads the time of its last change."""

LOOK_ANYWAY_AFTER_S = 1.0
"""The pause after which a local folder is read even if its time has not changed: some file systems are late."""

_CLOCK_TICK_NS = 50_000_000
"""Two commits within a tick of the file system's clock have the same time. A time this recent is not relied upon."""

MOST_STEPS = 100
"""Most epochs that are read one by one. A console that is further behind goes on from the newest, with a reset."""

_STOP_LIMIT_S = 10.0

OnView = Callable[[RegistryView], None]


class Feed:
    """Looks for new snapshots from `start` to `stop`.

    In the event loop it calls `on_step` with each snapshot in order of the epoch, and `on_leap` with one that does not
    follow the one before.
    """

    def __init__(self, root: Root, kept: KeptSnapshots, on_step: OnView, on_leap: OnView) -> None:
        self._root = root
        self._kept = kept
        self._on_step = on_step
        self._on_leap = on_leap
        self._loop = asyncio.get_running_loop()
        self._reader: RouteReader | None = None
        self._view: RegistryView | None = None
        self._table_id = ""
        self._folder = _folder_of(root)
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
                if self._has_changed():
                    self._look()
                self.problem = None
            except (NamesrvError, DeltaError, OSError) as error:
                self._note(error if isinstance(error, NamesrvError) else StorageError(self._root.url, str(error)))
            except Exception as error:
                if self._kinds.is_due(error):
                    log.exception("the tables cannot be read")
                self._note(error)

    def _has_changed(self) -> bool:
        """Return whether a commit may have come since the last call. On an object store only a look can tell."""
        if self._folder is None:
            return True
        try:
            changed_ns = self._folder.stat().st_mtime_ns
        except OSError:
            self._reader = None  # the look says what is wrong, and opens what may be made anew
            return True
        if changed_ns == self._seen_ns and time.monotonic() - self._looked_s < LOOK_ANYWAY_AFTER_S:
            return False
        self._seen_ns = changed_ns if time.time_ns() - changed_ns > _CLOCK_TICK_NS else 0
        self._looked_s = time.monotonic()
        return True

    def _look(self) -> None:
        reader, was_open = self._reader or RouteReader(self._root), self._reader is not None
        self._reader = reader
        has_changed = reader.refresh()
        if self._view is not None and reader.snapshots.table_id != self._table_id:
            self._view = None
            self._kept.forget()
        self._table_id = reader.snapshots.table_id
        if not has_changed and was_open:
            return
        if self._view is None:
            self._go_to(reader.view(reader.snapshots.newest(), None), self._on_leap)
            return
        epoch = self._view.snapshot.epoch
        rows = reader.snapshots.after(epoch)
        if len(rows) > MOST_STEPS or (rows and rows[0].epoch != epoch + 1):
            self._go_to(reader.view(rows[-1], self._view), self._on_leap)
            return
        for row in rows:
            self._go_to(reader.view(row, self._view), self._on_step)

    def _go_to(self, view: RegistryView, call: OnView) -> None:
        _ = view.routes  # the indexes are made in this thread
        self._kept.keep(view)
        self._view = view
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call, view)

    def _note(self, error: Exception) -> None:
        """Log a problem once a minute, not at every look."""
        self._reader, self._seen_ns = None, 0  # a folder that was made anew is opened anew
        if self._kinds.is_due(error):
            log.warning("no newer snapshot: %s", error)
        self.problem = str(error)


def _folder_of(root: Root) -> Path | None:
    """Return the folder whose time changes with each snapshot, None for an object store."""
    return None if "://" in root.url else Path(root.uri(SNAPSHOT)) / "_delta_log"
