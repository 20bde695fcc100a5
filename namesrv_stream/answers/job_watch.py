"""Ask Kafka again and again what the job does, for processes that show its state: one answer everywhere, in 10 s."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from namesrv_stream.answers.job_status import NOT_ASKED, FromKafka, facts_from_kafka
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.root import Root

log = logging.getLogger(__name__)

ASK_EVERY_S = 2.0
"""The pause between two questions. The job notices a JVM that stands still after 5 s, and Kafka answers within 2 s."""


class JobWatch:
    """Asks from `start` to `stop`, in a thread. `facts` are Kafka's newest answers.

    `row` returns the newest row as it holds now, None if there is none.
    """

    def __init__(self, settings: NamesrvSettings, root: Root, row: Callable[[], SnapshotRow | None]) -> None:
        self._settings = settings
        self._root = root
        self._row = row
        self._stop = threading.Event()
        self.facts: FromKafka = NOT_ASKED

    def start(self) -> None:
        """Start the thread, which nobody waits for: a Kafka that is away answers late."""
        threading.Thread(target=self._run, name="job-watch", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end after its present question."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.facts = facts_from_kafka(self._settings, self._root, self._row())
            except Exception:  # the state is shown by the tables until the next question
                log.exception("what the job does is not known: internal error")
                self.facts = NOT_ASKED
            self._stop.wait(ASK_EVERY_S)
