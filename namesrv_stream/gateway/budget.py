"""Counts the bytes that peers make this process hold, and picks which of them to release when there are too many.

Nothing here reads a clock or a socket. Times are seconds of one clock of the caller's.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Holding:
    held_bytes: int
    since_s: float


@dataclass(slots=True)
class _Holder(Generic[K]):
    held_bytes: int = 0
    holdings: dict[K, _Holding] = field(default_factory=dict)


class Budget(Generic[K]):
    """The bytes that all peers hold together, and the rule for which of them are released first.

    A holding is the bytes of one connection or of one broker; its holder is the peer's host. Beyond `limit_bytes` the
    host that holds most has to give up a holding: the one with the most bytes times seconds. So a peer that hoards
    pays, not the peer whose frame comes next, nor a broker in the middle of a large registration.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._holders: dict[str, _Holder[K]] = {}
        self._host_of: dict[K, str] = {}

    def hold(self, key: K, host: str, held_bytes: int, now_s: float) -> None:
        """Set the bytes of a holding, which another host may have held before.

        Its age counts from the last time that it had none.
        """
        if (former_host := self._host_of.pop(key, host)) != host:
            self._set(key, former_host, 0, now_s)
        self._set(key, host, held_bytes, now_s)
        if held_bytes:
            self._host_of[key] = host

    def _set(self, key: K, host: str, held_bytes: int, now_s: float) -> None:
        holder = self._holders.setdefault(host, _Holder())
        former = holder.holdings.get(key)
        more_bytes = held_bytes - (former.held_bytes if former else 0)
        holder.held_bytes += more_bytes
        self.held_bytes += more_bytes
        if held_bytes:
            holder.holdings[key] = _Holding(held_bytes, former.since_s if former else now_s)
            return
        holder.holdings.pop(key, None)
        if not holder.holdings:
            del self._holders[host]

    def payer(self, now_s: float) -> K | None:
        """Return the holding to give up next; None while all holdings are within the limit."""
        if self.held_bytes <= self.limit_bytes:
            return None
        holder = max(self._holders.values(), key=lambda each: each.held_bytes)

        def weight(key: K) -> float:
            holding = holder.holdings[key]
            return holding.held_bytes * (1 + now_s - holding.since_s)

        return max(holder.holdings, key=weight)
