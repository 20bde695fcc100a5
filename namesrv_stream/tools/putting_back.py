"""Put the rows of a backup or of an earlier epoch into a registry, as one new epoch that the history explains.

This module claims the registry as a job does, so a running job can publish nothing more. Its changes are either before
the new epoch or not in the tables. A repair also replaces damaged tables. After it the job reads the log from the place
of the restored snapshot, so later records are applied again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, NotARegistryError, TableDamagedError
from namesrv_stream.kafka.election import candidates
from namesrv_stream.rules.history import AppliedEvent, history_of
from namesrv_stream.rules.lease import LogClock
from namesrv_stream.rules.registry_tables import RowChange
from namesrv_stream.rules.rows import BrokerEventRow, LiveRow, SnapshotRow, is_same_but_for_life
from namesrv_stream.tables.arrow import rows_from_arrow, rows_to_arrow
from namesrv_stream.tables.damage import Damage, newest_version, table_damages
from namesrv_stream.tables.mending import lay_anew, saved_rows
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.publication import Batch, KafkaLog, Publisher
from namesrv_stream.tables.root import Root, is_there
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    LIVE,
    PAST_SNAPSHOT,
    PINNED_TABLES,
    REJECTED,
    ROUTE_TABLES,
    SNAPSHOT,
    TableSpec,
)
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.writer import BaseMovedError, CommitTag, RustWriter, changes_to_write
from namesrv_stream.tools.backup_file import Content, Rows, content_of

_KAFKA_LIMIT_MS = 5_000

Cause = Literal["IMPORT", "RESTORE"]
_OPERATORS_TABLES = frozenset({"kv_config", "namesrv_config", "topic_mapping"})
"""Tables whose changes belong to no broker address. The history has them in the line of the command."""


def import_content(root: Root, settings: NamesrvSettings, content: Content, requested_by: str) -> SnapshotRow:
    """Make a registry at an empty root. Its job reads the log from the offset of the content's snapshot.

    Raises NamesrvError if the root already holds a registry.
    """
    taken = content.snapshot

    def log_of(former: SnapshotRow | None) -> KafkaLog:
        if former is not None:
            raise NamesrvError(
                f"{root.url} holds a registry already, with epoch {former.epoch}. Give another delta.root, or put an "
                "earlier state back by `namesrv-stream restore EPOCH --from FOLDER`."
            )
        return KafkaLog(taken.kafka_cluster_id, taken.kafka_topic_id)

    with suppress(NotARegistryError, NoSuchSnapshotError):
        log_of(Snapshots(root).newest())  # before any table is made or touched
    publisher = _claimed(root, settings, log_of)
    publisher.last = publisher.last._replace(log_accepted_at=taken.log_accepted_at)
    return _published(publisher, "IMPORT", {}, content, taken, requested_by)


def restore_content(
    root: Root, settings: NamesrvSettings, content: Content, requested_by: str, *, takes_over: bool = False
) -> SnapshotRow:
    """Publish the content as the registry's next epoch. The job reads the log from the newest snapshot's offset.

    Raises NamesrvError unless no job is active or `takes_over` is set.
    """
    newest = RouteReader(root).snapshots.newest()
    if not takes_over and newest.kind != "STOP":
        require_no_active_job(root, settings)
    for spec in PINNED_TABLES:  # a damaged table ends this command before it ends a job
        if damage := table_damages(root, spec, {newest.versions[spec.name]: ()}):
            raise TableDamagedError(root.url, spec.name, newest.versions[spec.name], damage[0].file, damage[0].problem)
    publisher = _claimed(root, settings, _log_of_before)
    now = content_of(RouteReader(root), publisher.last.epoch)
    return _published(publisher, "RESTORE", now.rows, content, publisher.last, requested_by)


def require_no_active_job(root: Root, settings: NamesrvSettings) -> None:
    """Raise NamesrvError if a job holds the registry's lock in Kafka, or if Kafka does not answer."""
    kafka = {"socket.timeout.ms": _KAFKA_LIMIT_MS} | kafka_client_arguments(settings)
    try:
        jobs = candidates(kafka, settings.kafka_topic, root.hadoop_url)
    except NamesrvError as error:
        raise NamesrvError(
            f"Kafka does not say whether a job is active: {error} If you know that none runs, or want it to end, give "
            "--take-over: a job that runs after all ends in order."
        ) from error
    for job in jobs:
        if job.is_active:
            raise NamesrvError(
                f"run {job.run_id} on {job.host} is active. Stop it first, or give --take-over: then that job ends in "
                "order, and has to be started again unless it has standby=true."
            )


def _claimed(root: Root, settings: NamesrvSettings, log_of: Callable[[SnapshotRow | None], KafkaLog]) -> Publisher:
    exact_ms = int(settings.snapshot_exact.total_seconds() * 1000)
    return Publisher.claim(
        writer_of(root), uuid.uuid4().hex, _now_ms(), _retention_ms(settings), log_of=log_of, exact_ms=exact_ms
    )


def _log_of_before(former: SnapshotRow | None) -> KafkaLog:
    return KafkaLog() if former is None else KafkaLog(former.kafka_cluster_id, former.kafka_topic_id)


def _published(  # noqa: PLR0913, PLR0917  # each a fact of the new epoch
    publisher: Publisher,
    cause: Cause,
    now: Mapping[str, Rows],
    content: Content,
    log_position: SnapshotRow,
    requested_by: str,
) -> SnapshotRow:
    """Publish the content as the next epoch. No time passes by the log's clock until the first tick after it (D9)."""
    clock = LogClock.of(log_position)
    changes = _changes_between(now, content.rows, clock.reading_ms or 0)
    event_time = log_position.event_time or log_position.published_at
    batch = Batch(
        query_id=None,
        batch_id=None,
        event_time_ms=log_position.event_time,
        offsets=log_position.offsets,
        changes=changes_to_write(changes),
        events=_history(cause, event_time, content.snapshot.epoch, changes, requested_by),
        clock=replace(clock, tick_append_ms=None),
        last_append_ms=log_position.last_append,
        kind="STOP",
    )
    return publisher.publish(batch, _now_ms())


def _history(
    cause: Cause, event_time: int, epoch: int, changes: Iterable[RowChange], requested_by: str
) -> list[BrokerEventRow]:
    """Return the line of the command, with the changes that belong to no broker, and the lines of the brokers."""
    changes = list(changes)
    of_operators = [change for change in changes if change.table in _OPERATORS_TABLES]
    of_brokers = [change for change in changes if change.table not in _OPERATORS_TABLES]
    command = AppliedEvent(cause, event_time, requested_by=requested_by, command={"type": cause, "epoch": epoch})
    brokers = AppliedEvent(cause, event_time, requested_by=requested_by)
    return [*history_of(command, of_operators), *history_of(brokers, of_brokers)]


def _retention_ms(settings: NamesrvSettings) -> int:
    """Return `snapshot.retention` in milliseconds."""
    return int(settings.snapshot_retention.total_seconds() * 1000)


def _now_ms() -> int:
    """Return the time of this machine's clock."""
    return time.time_ns() // 1_000_000


def _changes_between(now: Mapping[str, Rows], then: Mapping[str, Rows], reading_ms: int) -> list[RowChange]:
    """Return the changes that turn the rows of `now` into those of `then`.

    A lease that differs only in signs of life stays as it is. A lease that comes back counts as heard at `reading_ms`
    of the log's clock (D9). It has no connections until the next signs of life name them.
    """
    return [change for spec in ROUTE_TABLES for change in _changes(spec.name, spec.key, now, then, reading_ms)]


def _changes(
    table: str, key: Sequence[str], now: Mapping[str, Rows], then: Mapping[str, Rows], reading_ms: int
) -> Iterator[RowChange]:
    before, after = (_by_key(key, side.get(table, ())) for side in (now, then))
    for gone in before.keys() - after.keys():
        yield RowChange(table, gone, before[gone], None)
    for found, row in after.items():
        former = before.get(found)
        wanted = _lease_put_back(former, row, reading_ms) if isinstance(row, LiveRow) else row
        if former != wanted:
            yield RowChange(table, found, former, wanted)


def _lease_put_back(former: tuple[Any, ...] | None, lease: LiveRow, reading_ms: int) -> LiveRow:
    if isinstance(former, LiveRow) and is_same_but_for_life(former._replace(tokens=lease.tokens), lease):
        return former._replace(tokens=lease.tokens)
    return lease._replace(channels={}, clock_millis=reading_ms, grace_until=None, suspect_since=None)


def _by_key(key: Sequence[str], rows: Rows) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {tuple(getattr(row, name) for name in key): row for row in rows}


class Repair(NamedTuple):
    """Result of a repair: the published snapshot, the epoch whose tables it has, and the tables written anew."""

    published: SnapshotRow
    epoch: int
    laid_anew: Sequence[str]


def repair(  # noqa: PLR0913  # each a fact of the new epoch
    root: Root,
    settings: NamesrvSettings,
    found: Sequence[Damage],
    source: Callable[[Sequence[SnapshotRow]], Content],
    requested_by: str,
    *,
    takes_over: bool = False,
) -> Repair:
    """Publish the content that `source` makes from the registry's snapshots, and mend the tables for it.

    `source` is called before a running job is ended, so an unusable source ends no job. Raises NamesrvError.
    """
    rows = rows_from_arrow(SNAPSHOT, saved_rows(root, SNAPSHOT))
    content = source(rows)
    newest = max(rows, key=lambda row: row.epoch, default=content.snapshot)
    if not _is_of_same_log(newest, content.snapshot):
        content = _heard_at(content, newest.clock_millis)
    if not takes_over and newest.kind != "STOP":
        require_no_active_job(root, settings)
    mending = _Mending(root, _retention_ms(settings), found, newest)
    mending.save(SNAPSHOT)
    if is_there(root, PAST_SNAPSHOT):
        mending.save(PAST_SNAPSHOT)
    versions = {spec.name: mending.put_back(spec, content) for spec in ROUTE_TABLES}
    versions |= {spec.name: mending.save(spec) for spec in (BROKER_EVENT, REJECTED)}
    _claim(root, _log_position(newest, content.snapshot), versions)
    publisher = _claimed(root, settings, _log_of_before)
    row = _published(publisher, "RESTORE", content.rows, content, publisher.last, requested_by)
    return Repair(row, content.snapshot.epoch, mending.laid_anew)


def content_of_newest_whole(root: Root, found: Sequence[Damage], rows: Sequence[SnapshotRow]) -> Content:
    """Return the content of the newest snapshot without a damaged route table. Raises NamesrvError."""
    hurt = {(damage.table, version) for damage in found for version in damage.versions}
    names = [spec.name for spec in ROUTE_TABLES]
    whole = [row for row in rows if hurt.isdisjoint((name, row.versions[name]) for name in names)]
    if not whole:
        raise NamesrvError(
            f"no snapshot under {root.url} is whole. Give a folder of backups by --from FOLDER, or have the tables "
            "made anew from all that Kafka has by --from-log. Nothing was changed."
        )
    snapshot, writer = max(whole, key=lambda row: row.epoch), RustWriter(root)
    tables = {spec.name: writer.read(spec, snapshot.versions[spec.name]) for spec in ROUTE_TABLES}
    return Content(snapshot, {spec.name: rows_from_arrow(spec, tables[spec.name]) for spec in ROUTE_TABLES})


def of_backup(content: Content) -> Content:
    """Return the content of a backup without the table versions of its origin, which may be gone."""
    return content._replace(snapshot=content.snapshot._replace(versions={}))


def nothing(rows: Sequence[SnapshotRow]) -> Content:
    """Return empty tables, after which the job reads all records that Kafka has. Raises NoSuchSnapshotError."""
    if not rows:
        raise NoSuchSnapshotError("any epoch", None)
    newest = max(rows, key=lambda row: row.epoch)
    before_all = newest._replace(epoch=0, versions={}, offsets={}, event_time=None)
    return Content(before_all, {spec.name: () for spec in ROUTE_TABLES})


class _Mending:
    """Makes readable versions of the tables, which no snapshot names yet."""

    def __init__(self, root: Root, kept_ms: int, found: Sequence[Damage], newest: SnapshotRow) -> None:
        self._root = root
        self._kept_ms = kept_ms
        self._newest = newest
        self._tag = CommitTag(newest.epoch + 1, newest.term + 1)
        self._found = found
        self.laid_anew: list[str] = []

    def put_back(self, spec: TableSpec, content: Content) -> int:
        """Make a version of a route table that has the rows of `content`, and return it."""
        wanted = content.snapshot.versions.get(spec.name)
        if wanted is None or self._log_is_hurt(spec):
            return self._lay_anew(spec, rows_to_arrow(spec, content.rows[spec.name]))
        if wanted == self._newest.versions[spec.name]:
            return wanted
        writer = RustWriter(self._root)
        return writer.restore(spec, writer.head(spec), wanted, self._tag)

    def save(self, spec: TableSpec) -> int:
        """Return a version of an append-only table that has all rows that can still be read."""
        named = self._newest.versions.get(spec.name, newest_version(self._root, spec))
        hurt = any(damage.table == spec.name and named in damage.versions for damage in self._found)
        if not hurt and not self._log_is_hurt(spec):
            return named
        return self._lay_anew(spec, saved_rows(self._root, spec, self._newest.versions.get(spec.name)))

    def _log_is_hurt(self, spec: TableSpec) -> bool:
        return any(damage.table == spec.name and damage.file.startswith("_delta_log") for damage in self._found)

    def _lay_anew(self, spec: TableSpec, rows: pa.Table) -> int:
        self.laid_anew.append(spec.name)
        above = self._newest.versions.get(spec.name, 0)
        return lay_anew(self._root, spec, rows, self._kept_ms, above, self._tag)


def _is_of_same_log(newest: SnapshotRow, then: SnapshotRow) -> bool:
    return (newest.kafka_cluster_id, newest.kafka_topic_id) == (then.kafka_cluster_id, then.kafka_topic_id)


def _heard_at(content: Content, reading_ms: int | None) -> Content:
    """Return the content with all leases heard at a reading of the log's clock.

    Use it for leases of another log (D9).
    """
    live = [lease._replace(clock_millis=reading_ms, channels={}) for lease in content.rows[LIVE.name]]  # type: ignore[attr-defined]
    return content._replace(rows={**content.rows, LIVE.name: live})


def _log_position(newest: SnapshotRow, then: SnapshotRow) -> SnapshotRow:
    """Return `newest` with the place in the log and the log's clock of `then`, if both are of the same log."""
    if not _is_of_same_log(newest, then):
        return newest
    return newest._replace(
        offsets=then.offsets,
        event_time=then.event_time,
        last_append=then.last_append,
        last_tick=then.last_tick,
        last_tick_append=then.last_tick_append,
        clock_millis=then.clock_millis,
    )


def _claim(root: Root, former: SnapshotRow, versions: dict[str, int]) -> None:
    """Publish the versions under a new term, which ends a running job."""
    writer = writer_of(root)
    while True:
        newest, version = writer.newest_snapshot()
        assert newest is not None, "the table has been mended"
        row = former._replace(
            epoch=newest.epoch + 1,
            term=newest.term + 1,
            run_id=uuid.uuid4().hex,
            published_at=_now_ms(),
            versions=versions,
            changes={},
            kind="CLAIM",
        )
        with suppress(BaseMovedError):
            writer.append(SNAPSHOT, version, rows_to_arrow(SNAPSHOT, [row]), CommitTag(row.epoch, row.term))
            return
