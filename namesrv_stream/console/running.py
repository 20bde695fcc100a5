"""A running console: the state that its requests share, and the thread that follows the published snapshots."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus

from namesrv_stream.answers.command_sending import has_read
from namesrv_stream.answers.job_status import JobWatch, Status, health, newest_row, status
from namesrv_stream.answers.verdict import Doubt
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.guard import Admission
from namesrv_stream.console.hub import MAX_WATCHERS, Hub
from namesrv_stream.console.kept_snapshots import KeptSnapshots
from namesrv_stream.console.problems import RefusedError
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.damage_watch import DamageWatch
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT
from namesrv_stream.tables.snapshot_reader import LOOK_EVERY_S, RegistryView, RouteReader, SnapshotThread

log = logging.getLogger(__name__)

FIRST_SNAPSHOT_LIMIT_S = 5.0
LOOK_AT_FOLDER_EVERY_S = 0.01
"""The pause between two looks at a local folder. Each looks for one file, which takes 10 µs."""

MAX_STEPS = 100
"""Most epochs that are read one by one. A console that is further behind goes to the newest, with a reset."""


class Feed(SnapshotThread):
    """Looks for new snapshots from `start` to `stop`, and calls `on_view` with each in the event loop.

    The snapshots come in order of the epoch. None is left out unless the console is far behind or the snapshot is gone.
    """

    def __init__(self, kept: KeptSnapshots, on_view: Callable[[RegistryView], None]) -> None:
        is_local = kept.root.local_log(SNAPSHOT) is not None
        super().__init__(kept.root, "feed", LOOK_AT_FOLDER_EVERY_S if is_local else LOOK_EVERY_S)
        self._kept = kept
        self._on_view = on_view
        self._loop = asyncio.get_running_loop()

    def look(self, reader: RouteReader) -> None:
        """Go to the newest snapshot, through each one in between."""
        has_changed, known = reader.refresh(), self._kept.newest
        if not has_changed and not self.has_new_reader:
            return
        if known is None or known.registry != reader.snapshots.registry:
            rows, known = [reader.snapshots.newest()], None
        else:
            rows = reader.snapshots.after(known.snapshot.epoch)
        for row in rows if len(rows) <= MAX_STEPS else rows[-1:]:
            known = reader.view(row, known)
            _ = known.routes  # the indexes are made in this thread
            self._kept.follow(known)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._on_view, known)


class Running:
    """State that the requests of a console share. Lives in the event loop; threads may use `kept` and `status`."""

    def __init__(self, settings: NamesrvSettings) -> None:
        """Read the users file and the settings. Raises SettingError."""
        self.settings = settings
        self.kept = KeptSnapshots(Root(settings.delta_root, settings.storage_options or None), settings)
        self.admission = Admission(settings)
        self._watch = JobWatch(settings, self.kept.root, partial(newest_row, self.kept.root))
        self.damage = DamageWatch(self.kept.root)
        self.hub: Hub
        self._feed: Feed

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Follow the snapshots, and send them to watchers, as long as the `async with` lasts."""
        self.hub = Hub(self.settings, MAX_WATCHERS)
        self._feed = Feed(self.kept, self.hub.go_to)
        self._feed.start()
        self._watch.start()
        self.damage.start()
        progress = asyncio.ensure_future(self.hub.send_progress())
        yield
        progress.cancel()
        self.stop_watching()
        await asyncio.to_thread(self._feed.stop)
        await asyncio.to_thread(self.damage.stop)

    def stop_watching(self) -> None:
        """Send all watchers their last event, so that their connections end."""
        self.hub.drop_all("this console stops")
        self._watch.stop()

    def status(self) -> Status:
        """Return the present state of the job.

        May wait for the storage. Raises NamesrvError if there is no snapshot.
        """
        seen = self.kept.seen(self.kept.past(AsOf()))
        problem = self._feed.problem or self.damage.problem
        return status(seen, health(seen, time.time_ns() // 1_000_000), self.doubt, self._watch.facts, problem)

    @property
    def doubt(self) -> Doubt | None:
        """Why the present is not known, None if it is."""
        return self._watch.doubt

    async def await_snapshot(self, advice: str = "Try again in a moment.") -> None:
        """Wait until there is a snapshot. Raises RefusedError, with the advice, if there is none in a few seconds."""
        try:
            async with asyncio.timeout(FIRST_SNAPSHOT_LIMIT_S):
                await self.hub.has_view.wait()
        except TimeoutError as error:
            problem = self._feed.problem or "no snapshot has been read yet."
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, f"{problem} {advice}") from error

    async def published(self, at: LogPosition, limit_s: float) -> int | None:
        """Return the epoch that has a record, None if there is none within `limit_s`."""
        await self.await_snapshot()
        with suppress(TimeoutError), self.hub.watching(()) as watcher:
            async with asyncio.timeout(limit_s):
                while self.hub.view is None or not has_read(self.hub.view.snapshot, at):
                    await watcher.wait()
                    watcher.take()
                return self.hub.view.snapshot.epoch
        return None
