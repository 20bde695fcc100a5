"""Log lines about peers, of which one peer cannot cause any number."""

from __future__ import annotations

import logging
from dataclasses import dataclass

LINES_OF_A_HOST = 10
LINES_OF_ALL = 200
_HOSTS_SUMMED_UP = 10
_WINDOW_S = 10.0


@dataclass(slots=True)
class _Window:
    began_s: float
    lines: int = 0
    left_out: int = 0


class PeerLog:
    """The log of refused and closed peers, with a count of the lines that are left out.

    In ten seconds it has at most ten lines for each host, and 200 for all: if Kafka is too slow, thousands of brokers
    are refused at the same time.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._log = logger
        self._windows: dict[str, _Window] = {}
        self._all = _Window(-_WINDOW_S)

    def line(self, host: str, now_s: float, level: int, message: str) -> None:
        """Log a line about `host`, unless it or all hosts have had theirs in the present ten seconds."""
        if now_s - self._all.began_s >= _WINDOW_S:
            self._all = _Window(now_s)
        window = self._windows.setdefault(host, _Window(now_s))
        if window.lines < LINES_OF_A_HOST and self._all.lines < LINES_OF_ALL:
            window.lines += 1
            self._all.lines += 1
            self._log.log(level, "%s", message)
        else:
            window.left_out += 1

    def sum_up(self, now_s: float) -> None:
        """Log for the hosts whose ten seconds are over how many lines were left out: a line each for ten of them."""
        over = [host for host, window in self._windows.items() if now_s - window.began_s >= _WINDOW_S]
        ended = {host: self._windows.pop(host).left_out for host in over}
        most = sorted((host for host in ended if ended[host]), key=lambda host: -ended[host])
        for host in most[:_HOSTS_SUMMED_UP]:
            self._log.warning("%s: %d more connections were refused or closed in %.0f s", host, ended[host], _WINDOW_S)
        if others := most[_HOSTS_SUMMED_UP:]:
            count = sum(ended[host] for host in others)
            self._log.warning("%d other addresses: %d more of the same in %.0f s", len(others), count, _WINDOW_S)
