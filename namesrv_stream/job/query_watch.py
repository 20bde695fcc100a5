"""Watch a running query: warn of ticks that do not come, and end it if a newer run has claimed the registry."""

from __future__ import annotations

import logging
import time

from deltalake.exceptions import DeltaError

from namesrv_stream.errors import NoSuchSnapshotError, NotARegistryError, StorageError, TermLostError
from namesrv_stream.job.limits import require_descriptor
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.stream.tick_silence import TickSilence
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import Snapshots

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_SILENT_TICKS_S = 60.0


class TickWatch:
    """Warns of ticks that do not come."""

    def __init__(self, silence: TickSilence) -> None:
        self._silence = silence
        self._has_warned = False

    def look(self) -> None:
        """Warn once for each silence."""
        is_silent = self._silence.seconds() > _SILENT_TICKS_S
        if is_silent and not self._has_warned:
            log.warning("no tick for a minute: brokers that fall silent stay in their routes until the next tick. "
                        "Run a gateway or a fleet, or set jobTicker=true")  # fmt: skip
        self._has_warned = is_silent


class TermWatch:
    """Looks for a newer run's claim, once a second."""

    def __init__(self, root: Root, own: SnapshotRow) -> None:
        self._snapshots = Snapshots(root)
        self._own = own
        self._has_news = True  # a claim may have come since the own one
        self._looked_at_s = time.monotonic()

    def check(self) -> None:
        """Raise TermLostError if another run has claimed the registry, LimitReachedError if nothing can be opened.

        A storage that is away is not its business.
        """
        if time.monotonic() - self._looked_at_s < _LOOK_EVERY_S:
            return
        self._looked_at_s = time.monotonic()
        require_descriptor()
        try:
            self._has_news = self._snapshots.refresh() or self._has_news
            newest = self._snapshots.newest() if self._has_news else self._own
            self._has_news = False
        except (DeltaError, OSError, StorageError) as error:
            log.debug("the newest term is not known: %s", error)
            return
        if newest.term > self._own.term:
            raise TermLostError(self._own.term, newest.term, newest.run_id)

    @staticmethod
    def newest(root: Root) -> SnapshotRow | None:
        """The newest snapshot row, None if there is no registry yet."""
        try:
            return Snapshots(root).newest()
        except (NotARegistryError, NoSuchSnapshotError):
            return None
