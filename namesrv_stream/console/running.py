"""A running console: the state that its requests share, and the thread that follows the published snapshots."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus

from prometheus_client import CollectorRegistry

from namesrv_stream.answers.command_sending import has_read
from namesrv_stream.answers.health_metrics import HealthCollector
from namesrv_stream.answers.job_status import JobWatch, Status, health, newest_row, status
from namesrv_stream.answers.verdict import Doubt
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.guard import Admission
from namesrv_stream.console.hub import MAX_WATCHERS, Hub
from namesrv_stream.console.problems import RefusedError
from namesrv_stream.reporting.recent import Recent
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.damage_watch import DamageWatch
from namesrv_stream.tables.following import LOOK_EVERY_S, SnapshotThread
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT

log = logging.getLogger(__name__)

FIRST_SNAPSHOT_LIMIT_S = 5.0
LOOK_AT_FOLDER_EVERY_S = 0.01
"""The pause between two looks at a local folder. Each looks for one file, which takes 10 µs."""

MAX_ROWS = 2_000_000
"""Most rows of tables that stay in memory. Neighbouring snapshots share topics, distant ones do not."""

MAX_ANSWERS = 100

MAX_STEPS = 100
"""Most epochs that are read one by one. A console that is further behind goes to the newest, with a reset."""


class Feed(SnapshotThread):
    """Looks for new snapshots from `start` to `stop`, and calls `on_newest` with each in the event loop.

    The snapshots come in order of the epoch. None is left out unless the console is far behind or the snapshot is gone.
    `newest`: the newest one, None before the first; it does not wait for those in between.
    """

    def __init__(self, registry: Registry, on_newest: Callable[[RegistryAt], None]) -> None:
        is_local = registry.root.local_log(SNAPSHOT) is not None
        super().__init__(registry, "feed", LOOK_AT_FOLDER_EVERY_S if is_local else LOOK_EVERY_S)
        self.newest: RegistryAt | None = None
        self._on_newest = on_newest
        self._sent: RegistryAt | None = None
        self._loop = asyncio.get_running_loop()

    def look(self) -> None:
        """Go to the newest snapshot, through each one in between."""
        newest, known = self._registry.newest(), self._sent
        steps = [newest]
        if newest is not self.newest:
            _ = newest.routes  # the indexes are made in this thread
            self.newest = newest
        if known is not None and known.identity == newest.identity:
            if known.snapshot == newest.snapshot:
                return
            rows = self._registry.read(lambda snapshots: snapshots.after(known.snapshot.epoch))
            steps = [self._registry.published(row) for row in (rows if len(rows) <= MAX_STEPS else rows[-1:])]
        for each in steps:
            _ = each.routes
            self._sent = each
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._on_newest, each)


class Running:
    """State that the requests of a console share. Lives in the event loop; threads may use its registry."""

    def __init__(self, settings: NamesrvSettings) -> None:
        """Read the users file and the settings. Raises SettingError."""
        self.settings = settings
        root = Root(settings.delta_root, settings.storage_options or None)
        self.registry = Registry(root, settings=settings, kept_rows=MAX_ROWS)
        self.answers = Recent[bytes](MAX_ANSWERS)
        self.admission = Admission(settings)
        self._watch = JobWatch(settings, root, partial(newest_row, root))
        self.damage = DamageWatch(root)
        self.metrics = CollectorRegistry()
        self.metrics.register(HealthCollector(lambda: self.newest))
        self.hub: Hub
        self._feed: Feed

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Follow the snapshots, and send them to watchers, as long as the `async with` lasts."""
        self.hub = Hub(MAX_WATCHERS)
        self._feed = Feed(self.registry, self.hub.go_to)
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

    @property
    def newest(self) -> RegistryAt | None:
        """The newest snapshot that is followed, None before the first."""
        return self._feed.newest

    def at(self, moment: AsOf) -> RegistryAt:
        """Return the registry as of a moment; the newest snapshot for one without an epoch and a time.

        May wait for the storage. Raises NamesrvError.
        """
        newest = self._feed.newest
        return newest if moment == AsOf() and newest is not None else self.registry.at(*moment)

    def status(self) -> Status:
        """Return the present state of the job.

        May wait for the storage. Raises NamesrvError if there is no snapshot.
        """
        newest = self.at(AsOf())
        problem = self._feed.problem or self.damage.problem
        return status(newest, health(newest, time.time_ns() // 1_000_000), self.doubt, self._watch.facts, problem)

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
