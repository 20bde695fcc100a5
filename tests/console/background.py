"""A console that runs in a thread of its own for as long as its `with` block."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Self
from unittest.mock import patch

from namesrv_stream.answers import job_status
from namesrv_stream.answers.job_status import FromKafka
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.serving import ConsoleServer
from namesrv_stream.kafka.election import Candidate
from tests.waiting import LIMIT_S, until

ACTIVE = Candidate("run-1", "host", is_active=True)
WORKS = FromKafka(0, [ACTIVE])


def kafka_tells(facts: FromKafka = WORKS) -> AbstractContextManager[object]:
    """Consoles show what Kafka would tell of the job; no Kafka runs."""
    return patch.object(job_status, "facts_from_kafka", lambda *_: facts)


class BackgroundConsole:
    """Serves while its `with` block runs; `url` has no slash at the end."""

    def __init__(self, settings: NamesrvSettings) -> None:
        self.server = ConsoleServer(settings)
        self.url = self.server.url
        self._thread = threading.Thread(target=self.server.serve_until_stopped, name="console", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self.server.started)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self._thread.join(LIMIT_S)
