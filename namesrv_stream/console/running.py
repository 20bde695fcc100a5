"""A console while it runs: what its requests share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.command_rights import Admission
from namesrv_stream.console.feed import Feed
from namesrv_stream.console.hub import Hub
from namesrv_stream.console.kept_snapshots import KeptSnapshots
from namesrv_stream.console.problems import RefusedError
from namesrv_stream.history.events import AsOf
from namesrv_stream.questions.command_sending import has_read
from namesrv_stream.questions.job_status import Status, health, status
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.root import Root

FIRST_SNAPSHOT_LIMIT_S = 5.0


class Running:
    """State that the requests of a console share. Lives in the event loop; threads may use `kept` and `status`."""

    def __init__(self, settings: NamesrvSettings) -> None:
        """Raises SettingError."""
        self.settings = settings
        self.kept = KeptSnapshots(Root(settings.delta_root, settings.storage_options or None), settings)
        self.admission = Admission(settings)
        self.hub: Hub
        self._feed: Feed

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Follow the snapshots, and send them to watchers, as long as the `async with` lasts."""
        self.hub = Hub(self.settings, self.settings.console_max_watchers)
        self._feed = Feed(self.kept, self.hub.go_to)
        self._feed.start()
        progress = asyncio.ensure_future(self.hub.send_progress())
        yield
        progress.cancel()
        self.stop_watching()
        await asyncio.to_thread(self._feed.stop)

    def stop_watching(self) -> None:
        """Send all watchers their last event, so that their connections end."""
        self.hub.drop_all("this console stops")

    def status(self) -> Status:
        """Return the state of the job, judged now. May block. Raises NamesrvError if there is no snapshot."""
        seen = self.kept.seen(self.kept.find(AsOf()))
        return status(seen, health(seen, time.time_ns() // 1_000_000), problem=self._feed.problem)

    async def await_snapshot(self) -> None:
        """Return when there is a snapshot to watch from. Raises RefusedError after a few seconds without."""
        try:
            async with asyncio.timeout(FIRST_SNAPSHOT_LIMIT_S):
                await self.hub.has_view.wait()
        except TimeoutError as error:
            problem = self._feed.problem or "no snapshot is read yet: try again in a moment."
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, problem) from error

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
