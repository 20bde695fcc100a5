"""A console that runs in a thread of its own for as long as its `with` block."""

from __future__ import annotations

import threading
from typing import Self

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.serving import ConsoleServer
from tests.waiting import LIMIT_S, until


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
