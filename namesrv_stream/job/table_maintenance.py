"""Maintenance of the tables by the job itself, in a thread beside the micro-batches.

A publication never waits for maintenance: they share no lock, and each commits on top of the other's last commit.
It sorts no month of history, because that takes the memory of the whole month.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Self

from deltalake.exceptions import DeltaError

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.root import Root

log = logging.getLogger(__name__)

LIMIT_S = 60.0
"""The time after which a maintenance leaves the remaining tables to the next one."""

_STOP_LIMIT_S = 10.0


class OutOfTimeError(NamesrvError):
    """A maintenance was ended between two tables, because its time is up or the job stops."""


class TableMaintenance:
    """Runs `run_once` every `maintenanceMillis` within a `with`, in a thread.

    `on_point` is called with "maintaining" and the table's name before each table, and with "maintained" at the end.
    """

    def __init__(self, root: Root, settings: NamesrvSettings, on_point: Callable[[str], None]) -> None:
        self._root = root
        self._every_s = settings.maintenance_millis / 1000
        self._exact_ms = round(settings.snapshot_exact.total_seconds() * 1000)
        self._on_point = on_point
        self._begun: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="table-care", daemon=True)

    def __enter__(self) -> Self:
        if self._every_s:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread after its present table. Nothing breaks if it goes on or dies with the process."""
        self._stopped.set()
        if self._every_s:
            self._thread.join(_STOP_LIMIT_S)

    def run_once(self) -> None:
        """Maintain the tables, first those that the last maintenance had no time for."""
        now_s = time.monotonic()

        def on_table(name: str) -> None:
            if self._stopped.is_set() or time.monotonic() > now_s + LIMIT_S:
                raise OutOfTimeError
            self._begun.add(name)
            self._on_point(f"maintaining {name}")

        maintained = maintain(
            self._root,
            sort=False,
            exact_ms=self._exact_ms,
            on_table=on_table,
            but=frozenset(self._begun),
        )
        did = [f"{name} from {before} to {after}" for name, before, after, _ in maintained if after != before]
        if did:
            log.info("maintenance merged files of the tables %s", ", ".join(did))
        self._begun.clear()
        self._on_point("maintained")

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self.run_once()
            except OutOfTimeError:
                log.debug("maintenance leaves some tables to the next run")
                self._on_point("maintained")
            except (NamesrvError, DeltaError, OSError) as error:
                log.warning("the job cannot maintain the tables: %s. The next run tries again.", str(error).rstrip("."))
            except Exception:  # the job goes on without maintenance
                log.exception("the job cannot maintain the tables: internal error. The next run tries again.")
