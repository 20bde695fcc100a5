"""The state by broker address: its last sign of life, and the timer that evicts the state once the address is silent.

Spark keeps the state, and the processor emits a row only for an eviction. An eviction ends no lease: the rules decide
that on the driver, because it concerns more than one address (docs/decisions/0006). The driver compares each eviction
with the lease. This module runs on the executors and imports only Spark and the standard library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

OUTPUT_SCHEMA = "broker_addr STRING, last_heard_ms LONG"
DEFAULT_TIMEOUT_MS = 120_000
"""Timeout of an address that has sent only heartbeats, which do not name one."""

LEFT = 0
"""`timeout_ms` of an unregistration."""

_Eviction = Row("broker_addr", "last_heard_ms")


class _Known(NamedTuple):
    """The state of one address: last sign of life, timeout, and the time of its one timer, in epoch milliseconds."""

    last_heard_ms: int
    timeout_ms: int
    timer_ms: int

    @property
    def end_ms(self) -> int:
        """The first millisecond at which the silent address is evicted."""
        return self.last_heard_ms + self.timeout_ms + 1


class BrokerLiveness(StatefulProcessor):
    """Follows one broker address. Ticks come with an empty address, for which no state is kept.

    Each address has one timer. Signs of life do not move it: if it fires too early, it is set to the present end.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:  # noqa: D102  # Spark's contract, as those below
        self._handle = handle
        self._state = handle.getValueState("broker", "last_heard_ms LONG, timeout_ms LONG, timer_ms LONG")

    def handleInputRows(  # noqa: D102, N802
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803  # Spark passes it by this name
    ) -> Iterator[Row]:
        if key[0]:
            self._take(sorted(rows, key=lambda row: row.offset), timerValues.getCurrentWatermarkInMs())
        return iter(())

    def handleExpiredTimer(  # noqa: D102, N802
        self,
        key: tuple[str],
        timerValues: Any,  # noqa: N803, ARG002
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        known = self._known()
        if known is None:
            return
        if known.end_ms > expiredTimerInfo.getExpiryTimeInMs():
            self._keep(known._replace(timer_ms=known.end_ms))
            self._handle.registerTimer(known.end_ms)
            return
        self._state.clear()
        yield _Eviction(key[0], known.last_heard_ms)

    def handleInitialState(self, key: tuple[str], initialState: Any, timerValues: Any) -> None:  # noqa: ARG002, D102, N802, N803
        self._set(None, initialState.last_heard_ms, initialState.timeout_ms)

    def close(self) -> None:  # noqa: D102
        pass

    def _take(self, rows: list[Row], watermark_ms: int) -> None:
        """Take the rows of the address in order of the log.

        A sign of life counts at the newest tick of the micro-batches before if Kafka's clock is behind it (E9).
        """
        before = self._known()
        heard_ms = before.last_heard_ms if before else None
        timeout_ms = before.timeout_ms if before else None
        for row in rows:
            if row.timeout_ms == LEFT:
                heard_ms = timeout_ms = None
                continue
            heard_ms = max(heard_ms or 0, row.heard_ms, watermark_ms)
            timeout_ms = row.timeout_ms or timeout_ms
        if heard_ms is not None:
            self._set(before, heard_ms, timeout_ms or DEFAULT_TIMEOUT_MS)
        elif before is not None:
            self._handle.deleteTimer(before.timer_ms)
            self._state.clear()

    def _set(self, before: _Known | None, heard_ms: int, timeout_ms: int) -> None:
        """Keep a sign of life. Set a timer if there is none, and move it only if the state now ends before it."""
        known = _Known(heard_ms, timeout_ms, before.timer_ms if before else 0)
        if before is None or known.end_ms < before.timer_ms:
            if before is not None:
                self._handle.deleteTimer(before.timer_ms)
            known = known._replace(timer_ms=known.end_ms)
            self._handle.registerTimer(known.end_ms)
        self._keep(known)

    def _known(self) -> _Known | None:
        found = self._state.get()
        return None if found is None else _Known(*found)

    def _keep(self, known: _Known) -> None:
        self._state.update(tuple(known))
