"""Look for new snapshots in a thread."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from deltalake.exceptions import DeltaError

from namesrv_stream.errors import NamesrvError, StorageError
from namesrv_stream.reporting.logs import OncePerMinute
from namesrv_stream.tables.registry import Registry

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25
_STOP_LIMIT_S = 10.0


class SnapshotThread(ABC):
    """Calls `look` every `pause_s` from `start` to `stop`, in a thread of its own; after a problem every LOOK_EVERY_S.

    `problem`: why no newer snapshot can be read; None if there is no such reason. It is logged at most once a minute.
    `on_problem` gets each error.
    """

    def __init__(
        self,
        registry: Registry,
        name: str,
        pause_s: float = LOOK_EVERY_S,
        on_problem: Callable[[Exception], None] = lambda _problem: None,
    ) -> None:
        self.problem: str | None = None
        self._on_problem = on_problem
        self._registry = registry
        self._pause_s = pause_s
        self._kinds = OncePerMinute()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def look(self) -> None:
        """Look for new snapshots."""

    def start(self) -> None:
        """Start the thread. It can be started once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Return after 10 s even if it still runs: the storage may not answer."""
        self._stop.set()
        self._thread.join(_STOP_LIMIT_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.look()
                self.problem = None
            except Exception as error:
                self._note(error)
            self._stop.wait(self._pause_s if self.problem is None else LOOK_EVERY_S)

    def _note(self, error: Exception) -> None:
        if isinstance(error, DeltaError | OSError):
            error = StorageError(self._registry.root.url, str(error))
        if self._kinds.is_due(error):
            log.warning("this process cannot read a newer snapshot: %s", error,
                        exc_info=not isinstance(error, NamesrvError))  # fmt: skip
        self.problem = str(error)
        self._on_problem(error)
