"""Publication of a good snapshot over damaged tables: of the newest whole one, of a backup, or of none.

The job then reads on in the log where that snapshot was taken, so what came since is applied again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow, rows_to_arrow
from namesrv_stream.tables.damage import Damage, newest_version
from namesrv_stream.tables.mending import lay_anew, saved_rows
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.progress_sign import ProgressFile
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.root import Root, is_there
from namesrv_stream.tables.schemas import BROKER_EVENT, LIVE, PAST_SNAPSHOT, REJECTED, ROUTE_TABLES, SNAPSHOT, TableSpec
from namesrv_stream.tables.writer import BaseMovedError, CommitTag, RustWriter
from namesrv_stream.tools.backup.content import Content
from namesrv_stream.tools.backup.putting_back import (
    log_of_before,
    now_ms,
    published,
    require_no_active_job,
    retention_ms,
)


class NothingWholeError(NamesrvError):
    """No retained snapshot has all of its files."""

    def __init__(self, root: str) -> None:
        super().__init__(
            f"no snapshot under {root} is whole. Give a folder of backups by --from FOLDER, or have the tables made "
            "anew from all that Kafka has by --from-log. Nothing was changed."
        )
        self.root = root


class Repair(NamedTuple):
    """Result of a repair: the snapshot it published, the epoch whose tables these are, and the tables laid anew."""

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
    """Publish the content that `source` makes of the registry's snapshots, and mend the tables for it.

    A source that is of no use is found out before a job that runs is ended. Raises JobActiveError.
    """
    rows = rows_from_arrow(SNAPSHOT, saved_rows(root, SNAPSHOT))
    content = source(rows)
    newest = max(rows, key=lambda row: row.epoch, default=content.snapshot)
    if not _is_of_same_log(newest, content.snapshot):
        content = _heard_at(content, newest.clock_millis)
    require_no_active_job(ProgressFile(root).row_now(newest), takes_over=takes_over)
    mending = _Mending(root, retention_ms(settings), found, newest)
    mending.save(SNAPSHOT)
    if is_there(root, PAST_SNAPSHOT):
        mending.save(PAST_SNAPSHOT)
    versions = {spec.name: mending.put_back(spec, content) for spec in ROUTE_TABLES}
    versions |= {spec.name: mending.save(spec) for spec in (BROKER_EVENT, REJECTED)}
    _claim(root, _log_position(newest, content.snapshot), versions)
    publisher = Publisher.claim(
        writer_of(root), uuid.uuid4().hex, now_ms(), retention_ms(settings), log_of=log_of_before
    )
    row = published(publisher, "RESTORE", content.rows, content, publisher.last, requested_by)
    return Repair(row, content.snapshot.epoch, mending.laid_anew)


def content_of_newest_whole(root: Root, found: Sequence[Damage], rows: Sequence[SnapshotRow]) -> Content:
    """Return the content of the newest snapshot of which no route table is damaged. Raises NothingWholeError."""
    hurt = {(damage.table, version) for damage in found for version in damage.versions}
    names = [spec.name for spec in ROUTE_TABLES]
    whole = [row for row in rows if hurt.isdisjoint((name, row.versions[name]) for name in names)]
    if not whole:
        raise NothingWholeError(root.url)
    snapshot, writer = max(whole, key=lambda row: row.epoch), RustWriter(root)
    tables = {spec.name: writer.read(spec, snapshot.versions[spec.name]) for spec in ROUTE_TABLES}
    return Content(snapshot, {spec.name: rows_from_arrow(spec, tables[spec.name]) for spec in ROUTE_TABLES})


def of_backup(content: Content) -> Content:
    """Return the content of a backup without the versions of the tables that it was taken of, which may be gone."""
    return content._replace(snapshot=content.snapshot._replace(versions={}))


def nothing(rows: Sequence[SnapshotRow]) -> Content:
    """Return empty tables, for which the job reads all that Kafka has. Raises NoSuchSnapshotError."""
    if not rows:
        raise NoSuchSnapshotError("any epoch", None)
    newest = max(rows, key=lambda row: row.epoch)
    before_all = newest._replace(epoch=0, versions={}, offsets={}, event_time=None)
    return Content(before_all, {spec.name: () for spec in ROUTE_TABLES})


class _Mending:
    """Makes versions of the tables that can be read, which no snapshot names yet."""

    def __init__(self, root: Root, kept_ms: int, found: Sequence[Damage], newest: SnapshotRow) -> None:
        self._root = root
        self._kept_ms = kept_ms
        self._newest = newest
        self._tag = CommitTag(newest.epoch + 1, newest.term + 1)
        self._found = found
        self.laid_anew: list[str] = []

    def put_back(self, spec: TableSpec, content: Content) -> int:
        """Return a version of a route table that has the rows of `content`."""
        wanted = content.snapshot.versions.get(spec.name)
        if wanted is None or self._log_is_hurt(spec):
            return self._lay_anew(spec, rows_to_arrow(spec, content.rows[spec.name]))
        if wanted == self._newest.versions[spec.name]:
            return wanted
        writer = RustWriter(self._root)
        return writer.restore(spec, writer.head(spec), wanted, self._tag)

    def save(self, spec: TableSpec) -> int:
        """Return the newest version of an append-only table, without the rows that can no longer be read."""
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
    """Return the content with all leases heard at a reading of the log's clock: theirs are of another log's (D9)."""
    live = [lease._replace(clock_millis=reading_ms, channels={}) for lease in content.rows[LIVE.name]]  # type: ignore[attr-defined]
    return content._replace(rows={**content.rows, LIVE.name: live})


def _log_position(newest: SnapshotRow, then: SnapshotRow) -> SnapshotRow:
    """Return `newest` with the place in the log, and the log's clock, at which `then` was taken, if of the same log."""
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
    """Publish the versions under a new term, which ends a job that runs."""
    writer = writer_of(root)
    while True:
        newest, version = writer.newest_snapshot()
        assert newest is not None, "the table has been mended"
        row = former._replace(
            epoch=newest.epoch + 1,
            term=newest.term + 1,
            run_id=uuid.uuid4().hex,
            published_at=now_ms(),
            versions=versions,
            changes={},
            kind="CLAIM",
        )
        with suppress(BaseMovedError):
            writer.append(SNAPSHOT, version, rows_to_arrow(SNAPSHOT, [row]), CommitTag(row.epoch, row.term))
            return
