"""Put the rows of a backup or of an earlier epoch into a registry, as one new epoch that the history explains.

The registry is claimed as by a job, so a job that runs can publish nothing more: either all of its changes or all of
ours come first.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, NotARegistryError, TableDamagedError
from namesrv_stream.rules.history import AppliedEvent, history_of
from namesrv_stream.rules.lease import LogClock
from namesrv_stream.rules.progress import STALE_AFTER_MS
from namesrv_stream.rules.registry_tables import RowChange
from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow
from namesrv_stream.tables.damage import table_damages
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.progress_sign import ProgressFile
from namesrv_stream.tables.publication import Batch, KafkaLog, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import PINNED_TABLES
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.writer import changes_to_write
from namesrv_stream.tools.backup.content import Content, Rows, changes_between, content_of

Cause = Literal["IMPORT", "RESTORE"]
_OPERATORS_TABLES = frozenset({"kv_config", "namesrv_config", "topic_mapping"})
"""Tables whose changes belong to no broker address, and stand in the line of the command."""


class JobActiveError(NamesrvError):
    """Refusal to put rows back while a job publishes to the registry."""

    def __init__(self, newest: SnapshotRow, age_s: float) -> None:
        super().__init__(
            f"run {newest.run_id} published epoch {newest.epoch} {age_s:.0f} s ago, so a job is active. Stop it first, "
            "or give --take-over: then that job ends in order, and has to be started again unless it has standby=true."
        )
        self.newest = newest


class RegistryNotEmptyError(NamesrvError):
    """Refusal to import into a registry that has snapshots."""

    def __init__(self, root: str, newest: SnapshotRow) -> None:
        super().__init__(
            f"{root} holds a registry already, with epoch {newest.epoch}. Give another delta.root, or put an earlier "
            "state back by `namesrv-stream restore EPOCH --from FOLDER`."
        )
        self.newest = newest


def import_content(root: Root, settings: NamesrvSettings, content: Content, requested_by: str) -> SnapshotRow:
    """Make a registry at an empty root. Its job goes on at the offset in the log at which the content was taken.

    Raises RegistryNotEmptyError.
    """
    taken = content.snapshot

    def log_of(former: SnapshotRow | None) -> KafkaLog:
        if former is not None:
            raise RegistryNotEmptyError(root.url, former)
        return KafkaLog(taken.kafka_cluster_id, taken.kafka_topic_id)

    with suppress(NotARegistryError, NoSuchSnapshotError):
        log_of(Snapshots(root).newest())  # before any table is made or touched
    publisher = Publisher.claim(writer_of(root), uuid.uuid4().hex, now_ms(), retention_ms(settings), log_of=log_of)
    publisher.last = publisher.last._replace(log_accepted_at=taken.log_accepted_at)
    return published(publisher, "IMPORT", {}, content, taken, requested_by)


def restore_content(
    root: Root, settings: NamesrvSettings, content: Content, requested_by: str, *, takes_over: bool = False
) -> SnapshotRow:
    """Publish the content as the registry's next epoch. The log is read on where the newest snapshot stands.

    Raises JobActiveError unless no job is active or `takes_over` is set.
    """
    newest = ProgressFile(root).row_now(RouteReader(root).snapshots.newest())
    require_no_active_job(newest, takes_over=takes_over)
    for spec in PINNED_TABLES:  # a table that is damaged ends this command and no job
        if damage := table_damages(root, spec, {newest.versions[spec.name]: ()}):
            raise TableDamagedError(root.url, spec.name, newest.versions[spec.name], damage[0].file, damage[0].problem)
    publisher = Publisher.claim(
        writer_of(root), uuid.uuid4().hex, now_ms(), retention_ms(settings), log_of=log_of_before
    )
    now = content_of(RouteReader(root), publisher.last.epoch)
    return published(publisher, "RESTORE", now.rows, content, publisher.last, requested_by)


def require_no_active_job(newest: SnapshotRow, *, takes_over: bool) -> None:
    """Raise JobActiveError if the newest snapshot is a running job's, unless `takes_over` is set."""
    age_s = time.time() - newest.published_at / 1000
    if newest.kind != "STOP" and age_s * 1000 < STALE_AFTER_MS and not takes_over:
        raise JobActiveError(newest, age_s)


def log_of_before(former: SnapshotRow | None) -> KafkaLog:
    """Return the log that a registry had."""
    return KafkaLog() if former is None else KafkaLog(former.kafka_cluster_id, former.kafka_topic_id)


def published(  # noqa: PLR0913, PLR0917  # each a fact of the new epoch
    publisher: Publisher,
    cause: Cause,
    now: Mapping[str, Rows],
    content: Content,
    log_position: SnapshotRow,
    requested_by: str,
) -> SnapshotRow:
    """Publish the content as the next epoch. No time passes by the log's clock until the first tick after it (D9)."""
    clock = LogClock.of(log_position)
    changes = changes_between(now, content.rows, clock.reading_ms or 0)
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
    return publisher.publish(batch, now_ms())


def _history(
    cause: Cause, event_time: int, epoch: int, changes: Iterable[RowChange], requested_by: str
) -> list[BrokerEventRow]:
    """Return a line of the command, with the changes that no broker makes, and the lines of the brokers."""
    changes = list(changes)
    of_operators = [change for change in changes if change.table in _OPERATORS_TABLES]
    of_brokers = [change for change in changes if change.table not in _OPERATORS_TABLES]
    command = AppliedEvent(cause, event_time, requested_by=requested_by, command={"type": cause, "epoch": epoch})
    brokers = AppliedEvent(cause, event_time, requested_by=requested_by)
    return [*history_of(command, of_operators), *history_of(brokers, of_brokers)]


def retention_ms(settings: NamesrvSettings) -> int:
    """Return `snapshot.retention` in milliseconds."""
    return int(settings.snapshot_retention.total_seconds() * 1000)


def now_ms() -> int:
    """Return the time of this machine's clock."""
    return time.time_ns() // 1_000_000
