"""Log lines about peers, of which one peer cannot cause any number."""

from __future__ import annotations

import logging
from dataclasses import dataclass

LINES_OF_A_HOST = 10
_WINDOW_S = 10.0


@dataclass(slots=True)
class _Window:
    began_s: float
    lines: int = 0


class PeerLog:
    """The log of refused and closed peers: for each host at most ten lines in ten seconds, and a count of the rest."""

    def __init__(self, logger: logging.Logger) -> None:
        self._log = logger
        self._windows: dict[str, _Window] = {}

    def line(self, host: str, now_s: float, level: int, message: str) -> None:
        """Log a line about `host`, unless ten have been logged in its present ten seconds."""
        window = self._windows.setdefault(host, _Window(now_s))
        window.lines += 1
        if window.lines <= LINES_OF_A_HOST:
            self._log.log(level, "%s", message)

    def sum_up(self, now_s: float) -> None:
        """Log for each host whose ten seconds are over how many lines were left out."""
        for host in [host for host, window in self._windows.items() if now_s - window.began_s >= _WINDOW_S]:
            left_out = self._windows.pop(host).lines - LINES_OF_A_HOST
            if left_out > 0:
                self._log.warning("%s: %d more connections were refused or closed in %.0f s", host, left_out, _WINDOW_S)
