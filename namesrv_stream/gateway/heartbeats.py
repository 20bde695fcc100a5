"""Send the signs of life of brokers as light heartbeats, and decide which of them the log gets.

The log gets at most one sign of life of a broker address over a connection in a quarter of the lease, and at most one
in a second. An earlier one waits until the quarter is over. Most also wait for the gateway's next tick, so that those
of many brokers come in one micro-batch. A sign of life that waits is answered by the outcome of the record before it.
No lease ends early. A silent broker leaves the routes later by at most three eighths of its lease and a quarter of a
second, or by a second if that is more.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial

from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.kafka_link import OWN, Ticks
from namesrv_stream.gateway.sending import InLog, KafkaSender
from namesrv_stream.rules.record_types import BrokerHeartbeat

log = logging.getLogger(__name__)

SHORTEST_INTERVAL_MS = 1_000
"""Shortest time between two signs of life over one connection in the log, however short the lease is. Only ticks end
leases, and they come no more often either."""


def interval_ms(timeout_ms: int) -> int:
    """Return the time between two signs of life in the log for a lease of `timeout_ms`."""
    return max(timeout_ms // 4, SHORTEST_INTERVAL_MS)


def gathered_every_ms(timeout_ms: int, ticks: Ticks) -> int | None:
    """Return the period of the ticks for which signs of life of a lease of `timeout_ms` wait; None if they do not.

    It is the longest of the ticks' periods that makes an interval at most half longer. Periods under a second do not
    count.
    """
    half_ms = interval_ms(timeout_ms) // 2
    return max((each for each in (ticks.often_ms, ticks.calm_ms) if 1_000 <= each <= half_ms), default=None)


@dataclass(slots=True, eq=False)
class _Newest:
    """The newest record with a sign of life of a broker address over a connection.

    `timer` sends the next record, for a sign of life that came since; None if none came.
    """

    sent_at_ms: int
    in_log: InLog
    timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Heartbeats:
    """The light heartbeats of one gateway. Lives in the event loop."""

    def __init__(self, sending: KafkaSender) -> None:
        self._sending = sending
        self._newest: dict[str, dict[str, _Newest]] = {}

    def send(self, address: str, channel_id: str, timeout_ms: int, host: str) -> InLog:
        """Send a sign of life of a lease of `timeout_ms`, now or later. Return the future by which it may be answered.

        If it is sent later, this is the future of the record before it. Raises the errors of `KafkaLink.send`.
        """
        newest = self._newest.get(address, {}).get(channel_id)
        if newest is None or not self._defer_if_early(newest, address, channel_id, timeout_ms, host):
            return self._send_now(address, channel_id, host)
        return _answer_by(newest.in_log)

    def _defer_if_early(self, newest: _Newest, address: str, channel_id: str, timeout_ms: int, host: str) -> bool:
        """Return whether a timer sends the sign of life, and set the timer if there is none yet.

        A sign of life that comes so late that its lease may soon end does not wait.
        """
        if newest.timer is not None:
            return True
        interval, age_ms = interval_ms(timeout_ms), self._sending.now_ms - newest.sent_at_ms
        wait_ms: float = interval - age_ms
        ticks = self._sending.link.ticks
        if age_ms < 2 * interval and (every_ms := gathered_every_ms(timeout_ms, ticks)):
            wait_ms = ticks.until_gathered_ms(wait_ms, every_ms, address)
        if wait_ms <= 0:
            return False
        on_due = partial(self._on_due, address, channel_id, host)
        newest.timer = self._sending.loop.call_later(wait_ms / 1_000, on_due)
        return True

    def sent(self, address: str, channel_id: str, in_log: InLog) -> None:
        """Record that a sign of life of the address was handed to Kafka: a light heartbeat or a full registration.

        If it fails, the next sign of life is sent at once.
        """
        of_address = self._newest.setdefault(address, {})
        if former := of_address.get(channel_id):
            former.cancel()
        newest = of_address[channel_id] = _Newest(self._sending.now_ms, in_log)
        in_log.add_done_callback(partial(self._on_ended, address, channel_id, newest))

    def forget(self, address: str) -> None:
        """Forget all signs of life of an address that has left, and those that would be sent later."""
        for newest in self._newest.pop(address, {}).values():
            newest.cancel()

    def closed(self, address: str, channel_id: str) -> None:
        """Forget the signs of life of an address over a lost connection, and the one that would be sent later."""
        of_address = self._newest.get(address, {})
        if newest := of_address.pop(channel_id, None):
            newest.cancel()
        if not of_address:
            self._newest.pop(address, None)

    def send_all(self) -> None:
        """Send now what would be sent later, because the gateway stops."""
        for address, of_address in list(self._newest.items()):
            for channel_id in list(of_address):
                self.send_waiting(address, channel_id)

    def send_waiting(self, address: str, channel_id: str) -> None:
        """Send now the sign of life that would be sent later, if there is one."""
        newest = self._newest.get(address, {}).get(channel_id)
        if newest is not None and newest.timer is not None:
            self._on_due(address, channel_id, OWN)

    def _send_now(self, address: str, channel_id: str, host: str) -> InLog:
        heartbeat = BrokerHeartbeat(broker_addr=address, channel_id=channel_id)
        in_log = self._sending.link.send(heartbeat, host=host)
        self.sent(address, channel_id, in_log)
        return _answer_by(in_log)

    def _on_due(self, address: str, channel_id: str, host: str) -> None:
        try:
            self._send_now(address, channel_id, host)
        except NamesrvError as error:
            self.closed(address, channel_id)  # the next sign of life is sent at once
            log.debug("a heartbeat of %s is not sent: %s", address, error)

    def _on_ended(self, address: str, channel_id: str, newest: _Newest, in_log: InLog) -> None:
        has_failed = in_log.cancelled() or in_log.exception() is not None
        if has_failed and self._newest.get(address, {}).get(channel_id) is newest:
            self.closed(address, channel_id)


def _answer_by(in_log: InLog) -> InLog:
    """Return a future with the outcome of `in_log`. A caller who stops waiting may end it without harm to the record.

    (The outer future of `asyncio.shield` may be cancelled, but not ended with an error.)
    """
    if in_log.done():
        return in_log
    answer: InLog = in_log.get_loop().create_future()
    in_log.add_done_callback(partial(_pass_on, answer))
    return answer


def _pass_on(answer: InLog, in_log: InLog) -> None:
    if answer.done():
        return
    if in_log.cancelled():
        answer.cancel()
    elif (error := in_log.exception()) is not None:
        answer.set_exception(error)
        answer.exception()  # marks the error as retrieved, because not every caller waits for it
    else:
        answer.set_result(in_log.result())
