"""One micro-batch: the events of the stateful step through the rules, and what changed into the tables.

A micro-batch is one Spark job: its rows are collected once, and everything after that happens on the driver.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import MalformedRecordError, NamesrvError
from namesrv_stream.records import decode_lease_only, decode_record
from namesrv_stream.rules.lease import log_order
from namesrv_stream.rules.registry import LeaseEnd, RouteRegistry
from namesrv_stream.rules.requests import Command, RegisterBroker
from namesrv_stream.rules.rows import LogPosition, RejectedRow
from namesrv_stream.stream.liveness import MARK
from namesrv_stream.stream.source import COMMAND_TYPES, MAX_REJECTED_BYTES, REJECTED
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.schemas import ROUTE_TABLES
from namesrv_stream.tables.writer import RowChanges, changes_to_write

log = logging.getLogger(__name__)

MAX_REASON_CHARS = 200
"""Of a rejected record's reason, which may quote the record."""

_STOP_LIMIT_S = 30.0
_PUBLICATIONS_BETWEEN_CARE = 100
_END_KINDS = ("UNREGISTERED", "CHANNEL_CLOSED", "EXPIRED")
Event = Mapping[str, Any]


class QueryNotStoppedError(NamesrvError):
    """A micro-batch came after `close`, and nobody has stopped the query. The batch counts as not done."""

    def __init__(self) -> None:
        super().__init__("the job was stopping and did not: end the process. The next run goes on where it stood.")


class MicroBatches:
    """What foreachBatch calls. Keeps the registry in memory, as published plus signs of life not yet published.

    A record counts once: what is below `offsets` (partition -> next, of the last snapshot unless the topic was made
    anew) is in the tables already, however Spark comes to read it again. An expiry that comes again finds no lease.
    Call `close` before the query is stopped, so that no batch is cut in two.
    """

    def __init__(
        self, settings: NamesrvSettings, publisher: Publisher, offsets: Mapping[int, int] | None = None
    ) -> None:
        self.last_tick_at_s = time.monotonic()
        self.failure: BaseException | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._settings = settings
        self._publisher = publisher
        self._registry = RouteRegistry(settings)
        self._registry.load({spec.name: publisher.rows(spec) for spec in ROUTE_TABLES})
        self._offsets = dict(publisher.last.offsets if offsets is None else offsets)
        self._handled = dict(self._offsets)
        self._has_moved = self._offsets != publisher.last.offsets
        self._event_time_ms = publisher.last.event_time
        self._live_published_ms = publisher.last.event_time or 0
        self._rejected: list[RejectedRow] = []
        self._last: tuple[str, int] | None = None
        self._publications = 0

    @property
    def offsets(self) -> Mapping[int, int]:
        """Partition -> next: all records before are in the tables, signs of life aside."""
        return self._handled

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Handle one micro-batch of the query that Spark runs in this thread."""
        context = frame.sparkSession.sparkContext
        query_id = context.getLocalProperty("sql.streaming.queryId") or ""
        with self._lock:
            if not self._is_closed:
                self.handle(frame.toArrow(), query_id, batch_id)
                return
        # Too late. An end of this call would tell Spark that the batch is done, and an error of ours that the query
        # failed; StreamingQuery.stop interrupts what waits in the JVM, and takes that for what it is.
        assert context._jvm is not None
        context._jvm.java.lang.Thread.sleep(int(2_000 * _STOP_LIMIT_S))
        raise QueryNotStoppedError

    def handle(self, events: pa.Table, query_id: str, batch_id: int) -> None:
        """Apply the stateful step's rows and publish what they change."""
        self._last = (query_id, batch_id)
        try:
            self._handle(events)
        except Exception as error:
            self.failure = error  # Spark passes on only its text
            raise

    def _handle(self, events: pa.Table) -> None:
        rows = [event for event in events.to_pylist() if event["offset"] < 0 or not self._is_applied(event)]
        self._advance(rows)
        for event in _in_log_order(rows):
            self._apply(event)
        is_published = self._publish(include_live=self._is_live_due())
        self._handled = dict(self._offsets)
        if is_published:
            self._care_for_tables()

    def close(self) -> None:
        """Wait for the batch that runs, take no further one, and publish the signs of life that wait.

        After a failed batch, of which a part may be applied, nothing is published; nor beside one that hangs, as on a
        cluster without workers.
        """
        self._is_closed = True
        if not self._lock.acquire(timeout=_STOP_LIMIT_S):
            log.warning("the micro-batch that runs has not ended for %.0f s: it is broken off", _STOP_LIMIT_S)
            return
        try:
            if self.failure is None and self._last is not None and self._registry.has_signs_of_life():
                self._publish(include_live=True)
        finally:
            self._lock.release()

    def _is_applied(self, event: Event) -> bool:
        return bool(event["offset"] < self._offsets.get(event["partition"], 0))

    def _advance(self, events: Iterable[Event]) -> None:
        """How far the log has been read: every key tells the highest offset it saw of each partition."""
        for event in events:
            if event["offset"] >= 0:
                partition, following = event["partition"], event["offset"] + 1
                self._offsets[partition] = max(following, self._offsets.get(partition, 0))
            self._event_time_ms = max(self._event_time_ms or 0, event["event_time_ms"])
            if event["kind"] == MARK and not event["broker_addr"]:
                self.last_tick_at_s = time.monotonic()

    def _is_live_due(self) -> bool:
        waited_ms = (self._event_time_ms or 0) - self._live_published_ms
        return self._registry.has_signs_of_life() and waited_ms >= self._settings.live_refresh_millis

    def _apply(self, event: Event) -> None:
        kind = event["kind"]
        at = LogPosition(event["event_time_ms"], event["partition"], event["offset"])
        if kind == "SEEN":
            self._registry.seen(event["broker_addr"], at.event_time)
        elif kind == "REGISTERED":
            self._register(event, at)
        elif kind in _END_KINDS:
            self._registry.end(LeaseEnd(kind, event["broker_addr"], at, event["last_heard_ms"]))
        elif kind in COMMAND_TYPES:
            self._command(event, at)
        elif kind == REJECTED:
            self._reject(event, at, event["reason"])

    def _register(self, event: Event, at: LogPosition) -> None:
        """A registration whose topics cannot be read still counts for its lease, and its record is kept."""
        try:
            request = decode_record(event["value"])
        except MalformedRecordError as error:
            self._reject(event, at, error.reason)
            with suppress(MalformedRecordError):
                self._registry.register(decode_lease_only(event["value"]), at, lease_only=True)
            return
        assert isinstance(request, RegisterBroker), "the source took it for a registration"
        self._registry.register(request, at)

    def _command(self, event: Event, at: LogPosition) -> None:
        try:
            command = decode_record(event["value"])
        except MalformedRecordError as error:
            self._reject(event, at, error.reason)
            return
        assert isinstance(command, Command), "the source took it for a command"
        self._registry.command(command, at)

    def _reject(self, event: Event, at: LogPosition, reason: str) -> None:
        log.warning("record rejected at partition %d offset %d: %s", at.partition, at.offset, reason)
        key, value = event["rejected_key"] or event["broker_addr"].encode(), event["value"]
        self._rejected.append(
            RejectedRow(
                at.event_time,
                at.partition,
                at.offset,
                key.decode(errors="replace"),
                value[:MAX_REJECTED_BYTES] if value is not None else None,
                event["length"] or 0,
                reason[:MAX_REASON_CHARS],
            )
        )

    def _publish(self, include_live: bool) -> bool:
        """Publish what has come, with the signs of life if there is anything; whether a snapshot came of it."""
        came = self._registry.take_batch()
        rejected, self._rejected = self._rejected, []
        changes = changes_to_write(came.changes)
        if not (changes or came.events or rejected or include_live or self._has_moved):
            return False
        heard = self._registry.take_signs_of_life()
        if heard:
            ended = changes["live"].deletes if "live" in changes else ()
            changes["live"] = RowChanges(_with_heard(changes.get("live"), heard), ended)
        self._live_published_ms = self._event_time_ms or 0
        assert self._last is not None, "a batch has been handled"
        batch = Batch(
            query_id=self._last[0],
            batch_id=self._last[1],
            event_time_ms=self._event_time_ms,
            offsets=self._offsets,
            changes=changes,
            events=came.events,
            rejected=rejected,
        )
        row = self._publisher.publish(batch, published_at_ms=time.time_ns() // 1_000_000)
        self._has_moved = False
        log.info("epoch %d: %s", row.epoch, ", ".join(f"{name} {count}" for name, count in row.changes.items()))
        return True

    def _care_for_tables(self) -> None:
        self._publications += 1
        if self._publications % _PUBLICATIONS_BETWEEN_CARE == 0:
            compacted = self._publisher.compact()
            if compacted:
                log.info("compacted %s", ", ".join(compacted))


def _with_heard(changes: RowChanges | None, heard: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The live rows to write: the changed ones and those only heard, each once and as it is now."""
    rows = {row[0]: row for row in changes.upserts} if changes is not None else {}
    return list({**rows, **{row[0]: row for row in heard}}.values())


def _in_log_order(events: Iterable[Event]) -> list[Event]:
    rows = [event for event in events if event["kind"] != MARK]
    return sorted(rows, key=lambda e: log_order(e["event_time_ms"], e["partition"], e["offset"], e["broker_addr"]))
