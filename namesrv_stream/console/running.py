"""A console while it runs: what its requests share."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Self

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.command_rights import Admission
from namesrv_stream.console.feed import Feed
from namesrv_stream.console.hub import CannotWatchError, Hub
from namesrv_stream.console.kept_snapshots import KeptSnapshots
from namesrv_stream.console.problems import UnknownBrokersError
from namesrv_stream.history.events import AsOf
from namesrv_stream.questions.command_sending import OperatorCommand, has_read
from namesrv_stream.questions.job_status import Status, health, status
from namesrv_stream.questions.subject import Between, Seen, between
from namesrv_stream.rules.commands import unknown_brokers
from namesrv_stream.rules.rows import LogPosition, SnapshotRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RegistryView

PROGRESS_EVERY_S = 15.0
FIRST_SNAPSHOT_LIMIT_S = 5.0


class Running:
    """A console within an `async with`. Lives in the event loop; threads may call `row`, `view` and `status`."""

    def __init__(self, settings: NamesrvSettings) -> None:
        """Raises SettingError or UsersFileError."""
        self.settings = settings
        self.root = Root(settings.delta_root, settings.storage_options or None)
        self.snapshots = KeptSnapshots(self.root)
        self.admission = Admission(settings)
        self.hub: Hub
        self._feed: Feed
        self._progress: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self.hub = Hub(self.snapshots, self.settings, self.settings.console_max_watchers)
        self._feed = Feed(self.root, self.snapshots, self.hub.step, self.hub.leap)
        self._feed.start()
        self._progress = asyncio.ensure_future(self._tell_progress())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._progress.cancel()
        self.stop_watching()
        await asyncio.to_thread(self._feed.stop)

    def stop_watching(self) -> None:
        """Send all watchers their last event, so that their connections end."""
        self.hub.drop_all("this console stops")

    def row(self, moment: AsOf) -> SnapshotRow:
        """Return the snapshot row of a moment, for an empty one the newest. May block. Raises NamesrvError."""
        newest = self.hub.view
        if newest is not None and moment.epoch in (None, newest.snapshot.epoch) and moment.at_ms is None:
            return newest.snapshot
        return self.snapshots.find(moment)

    def view(self, row: SnapshotRow) -> RegistryView:
        """Return the view of a row. May block."""
        newest = self.hub.view
        return newest if newest is not None and newest.snapshot == row else self.snapshots.view(row)

    def lacking(self, row: SnapshotRow, at_ms: int) -> Between | None:
        """Return what the snapshot in force at a moment lacks of it, None if it lacks nothing. May block."""
        return self.snapshots.read(lambda reader: between(self.root, reader.snapshots, row, at_ms))

    def seen(self, row: SnapshotRow, lacking: Between | None = None) -> Seen:
        """Return a snapshot as questions see it. May block."""
        return Seen.of(self.root, self.view(row), self.settings, lacking)

    def status(self) -> Status:
        """Return the state of the job, judged now. May block. Raises NamesrvError if there is no snapshot."""
        seen = self.seen(self.row(AsOf()))
        return status(seen, health(seen, time.time_ns() // 1_000_000), problem=self._feed.problem)

    def check_brokers(self, command: OperatorCommand) -> None:
        """Raise UnknownBrokersError if a command puts an order configuration of brokers that the registry lacks."""
        if self.hub.view is not None and (names := unknown_brokers(command, self.hub.view.routes.brokers)):
            raise UnknownBrokersError(names)

    @property
    def is_ready(self) -> bool:
        """True once there is a snapshot to answer from."""
        return self.hub.has_view.is_set()

    async def await_snapshot(self) -> None:
        """Return when there is a snapshot to watch from. Raises CannotWatchError after a few seconds without."""
        try:
            async with asyncio.timeout(FIRST_SNAPSHOT_LIMIT_S):
                await self.hub.has_view.wait()
        except TimeoutError as error:
            raise CannotWatchError(self._feed.problem or "no snapshot is read yet: try again in a moment.") from error

    async def published(self, at: LogPosition, limit_s: float) -> int | None:
        """Return the epoch that has a record, None if there is none within `limit_s`."""
        await self.await_snapshot()
        watcher = self.hub.attach(())
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    while not self._has(at):
                        await watcher.wait()
                        watcher.take()
            return self.hub.epoch if self._has(at) else None
        finally:
            self.hub.detach((), watcher)

    def _has(self, at: LogPosition) -> bool:
        view = self.hub.view
        return view is not None and has_read(view.snapshot, at)

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            self.hub.tell_progress()
