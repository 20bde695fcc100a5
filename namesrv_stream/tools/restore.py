"""Put the rows of a backup or of an earlier epoch into a registry, as one new epoch that the history explains.

This module claims the registry as a job does, so a running job can publish nothing more. Its changes are either before
the new epoch or not in the tables. A repair first makes damaged tables readable again (tables/repair.py). After a
repair from a backup the job reads the log from the place of that backup.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, cast

import msgspec

from namesrv_stream.answers.events import newest_of, newest_of_each
from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, NotARegistryError, TableDamagedError
from namesrv_stream.kafka.election import candidates
from namesrv_stream.rules.history import AppliedEvent, history_of
from namesrv_stream.rules.lease import LogClock
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import BrokerEventRow, Hole, LiveRow, RowChange, SnapshotRow, is_same_but_for_life
from namesrv_stream.tables.arrow import rows_to_arrow
from namesrv_stream.tables.damage import table_damages
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.publication import Batch, KafkaLog, Publisher
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.repair import Repair, held, make_snapshot_readable, mend, newest_tag, planned
from namesrv_stream.tables.root import Root, quoted
from namesrv_stream.tables.schemas import BROKER, BROKER_EVENT, LIVE, PINNED_TABLES, ROUTE_TABLES, SNAPSHOT, TOPIC
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tables.writer import BaseMovedError, CommitTag, changes_to_write
from namesrv_stream.tools.backup_file import Content, Rows, content_of

_KAFKA_LIMIT_MS = 5_000

Cause = Literal["IMPORT", "RESTORE", "REPAIR"]
_TABLES_OF_COMMAND = frozenset({"cluster", "kv_config", "namesrv_config"})
"""Tables whose changes belong to no broker address. The history has them in the line of the command."""


def import_content(root: Root, settings: NamesrvSettings, content: Content, requested_by: str) -> SnapshotRow:
    """Make a registry at an empty root. Its job reads the log from the offset of the content's snapshot.

    Raises NamesrvError if the root already holds a registry.
    """
    taken = content.snapshot

    def log_of(former: SnapshotRow | None) -> KafkaLog:
        if former is not None:
            raise NamesrvError(
                f"{root.url} has a registry already, at snapshot {former.epoch}. Set another delta.root, or restore an "
                "earlier state with `namesrv-stream restore EPOCH --from FOLDER`."
            )
        return KafkaLog(taken.kafka_cluster_id, taken.kafka_topic_id)

    with suppress(NotARegistryError, NoSuchSnapshotError):
        log_of(SnapshotTable(root).newest())  # before any table is made or touched
    publisher = _claimed(root, settings, log_of)
    publisher.last = publisher.last._replace(log_accepted_at=taken.log_accepted_at)
    return _published(publisher, "IMPORT", {}, content, taken, requested_by)


def restore_content(
    root: Root, settings: NamesrvSettings, content: Content, requested_by: str, *, takes_over: bool = False
) -> SnapshotRow:
    """Publish the content as the registry's next epoch. The job reads the log from the newest snapshot's offset.

    Raises NamesrvError unless no job is active or `takes_over` is set.
    """
    registry = Registry(root)
    newest = registry.newest().snapshot
    require_stopped(root, settings, newest, takes_over=takes_over)
    for spec in PINNED_TABLES:  # a damaged table ends this command before it ends a job
        if damage := table_damages(root, spec, newest.versions[spec.name]):
            raise TableDamagedError(root.url, spec.name, newest.versions[spec.name], damage[0].file, damage[0].problem)
    publisher = _claimed(root, settings, _log_of_before)
    now = content_of(registry.at(publisher.last.epoch))
    content = _with_last_heartbeats(registry.published(newest), content, now)
    return _published(publisher, "RESTORE", now.rows, content, publisher.last, requested_by)


def _with_last_heartbeats(newest: RegistryAt, content: Content, now: Content) -> Content:
    """Return the content with the last heartbeat of each lease that has ended since, as the history has it."""
    up = {lease.broker_addr for lease in cast("Sequence[LiveRow]", now.rows[LIVE.name])}
    leases = cast("Sequence[LiveRow]", content.rows[LIVE.name])
    if not (gone := sorted({lease.broker_addr for lease in leases} - up)):
        return content
    ended = f"last_heard_at IS NOT NULL AND broker_addr IN ({', '.join(map(quoted, gone))})"
    heard_at = {line.broker_addr: line.last_heard_at or 0 for line in newest_of_each(newest, "broker_addr", ended)}
    live = [
        lease._replace(last_update_timestamp=max(lease.last_update_timestamp, heard_at.get(lease.broker_addr, 0)))
        for lease in leases
    ]
    return content._replace(rows={**content.rows, LIVE.name: live})


def require_stopped(root: Root, settings: NamesrvSettings, newest: SnapshotRow, *, takes_over: bool) -> None:
    """Raise NamesrvError if a job may be active, which the newest snapshot or Kafka tells, unless `takes_over`."""
    if not takes_over and newest.kind != "STOP":
        require_no_active_job(root, settings)


def require_no_active_job(root: Root, settings: NamesrvSettings) -> None:
    """Raise NamesrvError if a job holds the registry's lock in Kafka, or if Kafka does not answer."""
    kafka = {"socket.timeout.ms": _KAFKA_LIMIT_MS} | kafka_client_arguments(settings)
    try:
        jobs = candidates(kafka, settings.kafka_topic, root.hadoop_url)
    except NamesrvError as error:
        raise NamesrvError(
            f"cannot find out from Kafka whether a job is active: {error} If none runs, or it may end, give "
            "--take-over. A job that runs then stops cleanly."
        ) from error
    for job in jobs:
        if job.is_active:
            raise NamesrvError(
                f"run {job.run_id} on {job.host} is active. Stop it first, or give --take-over. That job then stops "
                "cleanly, and has to be started again unless it has standby=true."
            )


def _claimed(
    root: Root,
    settings: NamesrvSettings,
    log_of: Callable[[SnapshotRow | None], KafkaLog],
    mended: Callable[[SnapshotRow], SnapshotRow] = lambda claim: claim,
) -> Publisher:
    exact_ms = int(settings.snapshot_exact.total_seconds() * 1000)
    return Publisher.claim(
        writer_of(root), uuid.uuid4().hex, _now_ms(), log_of=log_of, exact_ms=exact_ms, mended=mended
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
    facts: Mapping[str, object] = MappingProxyType({}),
) -> SnapshotRow:
    """Publish the content as the next epoch. No time passes by the log's clock until the first tick after it (D9).

    `facts`: what the line of the command has besides the epoch and the numbers of rows.
    """
    clock = LogClock.of(log_position)
    changes = _changes_between(now, content.rows, clock.reading_ms or 0)
    event_time = log_position.event_time or log_position.published_at
    batch = Batch(
        query_id=None,
        batch_id=None,
        event_time_ms=log_position.event_time,
        offsets=log_position.offsets,
        changes=changes_to_write(changes),
        events=_history(cause, event_time, content, changes, requested_by, facts),
        clock=replace(clock, tick_append_ms=None),
        last_append_ms=log_position.last_append,
        kind="STOP",
    )
    return publisher.publish(batch, _now_ms())


def _history(  # noqa: PLR0913, PLR0917  # each a fact of the lines
    cause: Cause,
    event_time: int,
    content: Content,
    changes: Sequence[RowChange],
    requested_by: str,
    facts: Mapping[str, object],
) -> list[BrokerEventRow]:
    """Return the line of the command, with the changes that belong to no broker, and the lines of the brokers.

    The line of the command has the number of rows of each table after it.
    """
    of_command = [change for change in changes if change.table in _TABLES_OF_COMMAND]
    of_brokers = [change for change in changes if change.table not in _TABLES_OF_COMMAND]
    rows = {name: len(of_table) for name, of_table in content.rows.items()}
    subject = {"type": cause, "epoch": content.snapshot.epoch, "rows": rows, **facts}
    command = AppliedEvent(cause, event_time, requested_by=requested_by, command=subject)
    [first] = history_of(command, of_command)
    first = first._replace(command=msgspec.json.encode(subject).decode())
    brokers = AppliedEvent(cause, event_time, requested_by=requested_by)
    return [first, *history_of(brokers, of_brokers)]


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
    return lease._replace(channels={}, clock_millis=reading_ms, suspect_since=None)


def _by_key(key: Sequence[str], rows: Rows) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {tuple(getattr(row, name) for name in key): row for row in rows}


def publish_repair(
    root: Root, settings: NamesrvSettings, plan: Repair, wanted: Content | None, requested_by: str
) -> SnapshotRow:
    """Mend the damaged tables, and publish `wanted` after them; None: what the repair makes of them.

    The registry is claimed first, with the holes, so that a job publishes nothing more and a repair that dies leaves
    what it knew. If a job has published since the plan was made, a new one is made. Raises NamesrvError.
    """
    known = newest_tag(root)
    make_snapshot_readable(root, plan)
    former = _claim(root, plan, known)
    if former.epoch > plan.newest.epoch:
        plan = planned(root, plan.found, former)
    newest, made = plan.newest, plan.made
    content = wanted or Content(newest, plan.rows)
    if not _is_of_same_log(newest, content.snapshot):
        content = _heard_at(content, newest.clock_millis)
    if plan.needs_full_registrations and wanted is None:
        leases: Sequence[LiveRow] = plan.rows[LIVE.name]
        live = [
            lease._replace(tokens=(), data_version=DataVersion(lease.data_version.state_version)) for lease in leases
        ]
        content = content._replace(rows={**held(plan.rows), LIVE.name: live})
    versions, position = mend(root, plan, plan.rows), _log_position(newest, content.snapshot)

    def mended(claim: SnapshotRow) -> SnapshotRow:
        return position._replace(
            epoch=claim.epoch,
            term=claim.term,
            run_id=claim.run_id,
            published_at=claim.published_at,
            versions=versions,
            changes={},
            kind="CLAIM",
            holes=_holes_until(plan, claim.epoch),
            repaired_at=claim.published_at,
        )

    publisher = _claimed(root, settings, _log_of_before, mended)
    holes = [each._asdict() for each in publisher.last.holes[len(newest.holes) :]]
    facts = {"kept": plan.kept, "made": sorted(made), "lost": plan.lost, "holes": holes}
    return _published(publisher, "REPAIR", plan.rows, content, publisher.last, requested_by, facts)


def _claim(root: Root, plan: Repair, known: CommitTag) -> SnapshotRow:
    """Claim the registry, which ends a running job, and return the newest row before. Tables stay as they are."""
    writer = writer_of(root)
    while True:
        found, version = writer.newest_snapshot()
        former = found or plan.newest
        epoch = max(former.epoch, known.epoch) + 1
        row = former._replace(
            epoch=epoch,
            term=max(former.term, known.term) + 1,
            run_id=uuid.uuid4().hex,
            published_at=_now_ms(),
            changes={},
            kind="CLAIM",
            holes=_holes_until(plan, epoch),
        )
        with suppress(BaseMovedError):
            writer.ensure_table(SNAPSHOT)
            writer.append(SNAPSHOT, version, rows_to_arrow(SNAPSHOT, [row]), CommitTag(row.epoch, row.term))
            return former


def _holes_until(plan: Repair, epoch: int) -> tuple[Hole, ...]:
    """Return all holes, of which those of tables that the repair makes end with an epoch."""
    made = [hole._replace(to_epoch=epoch) if hole.table_name in plan.rows else hole for hole in plan.holes]
    return (*plan.newest.holes, *made)


def of_backup(content: Content) -> Content:
    """Return the content of a backup without the table versions of its origin, which may be gone."""
    return content._replace(snapshot=content.snapshot._replace(versions={}))


def nothing(newest: SnapshotRow) -> Content:
    """Return empty tables, after which the job reads all records that Kafka has."""
    before_all = newest._replace(epoch=0, versions={}, offsets={})
    return Content(before_all, {spec.name: () for spec in ROUTE_TABLES})


def fewer(now: Mapping[str, Rows], lost: Mapping[str, int | None], then: Mapping[str, Rows]) -> list[str]:
    """Return what `then` has fewer of than gateways serve now, in words: brokers, rows of topics."""
    found = []
    for name, what in ((BROKER.name, "brokers"), (TOPIC.name, "rows of topics")):
        before, after = len(now[name]) + (lost.get(name) or 0), len(then[name])
        if after < before or (name in lost and lost[name] is None):
            known = "" if lost.get(name, 0) is not None else ", as rows of them are lost"
            found.append(f"{after:,} {what}{known or f' instead of {before:,}'}")
    return found


_MAX_KEYS = 20


def lost_keys(root: Root, plan: Repair) -> list[str]:
    """Return KV keys and settings that commands named in the epochs of a hole, if a repair has to make their tables."""
    if plan.made.isdisjoint({"kv_config", "namesrv_config"}):
        return []
    holes = (*plan.newest.holes, *plan.holes)
    first, last = min(each.from_epoch for each in holes), max(each.to_epoch for each in holes)
    chosen = f"type IN ('PUT_KV_CONFIG', 'UPDATE_NAMESRV_CONFIG') AND epoch BETWEEN {first} AND {last}"
    found = dict[str, None]()
    for line in (
        [] if BROKER_EVENT.name in plan.readable else newest_of(Registry(root).published(plan.newest), chosen, None)
    ):
        command = msgspec.json.decode(line.command or "{}")
        keys = command.get("properties") or [f"{command.get('namespace')}/{command.get('key')}"]
        found |= dict.fromkeys(keys)
    return [*found][:_MAX_KEYS]


def _is_of_same_log(newest: SnapshotRow, then: SnapshotRow) -> bool:
    return (newest.kafka_cluster_id, newest.kafka_topic_id) == (then.kafka_cluster_id, then.kafka_topic_id)


def _heard_at(content: Content, reading_ms: int | None) -> Content:
    """Return the content with all leases heard at a reading of the log's clock.

    Use it for leases of another log (D9).
    """
    live = [lease._replace(clock_millis=reading_ms, channels={}) for lease in content.rows[LIVE.name]]  # type: ignore[attr-defined]
    return content._replace(rows={**content.rows, LIVE.name: live})


def _log_position(newest: SnapshotRow, then: SnapshotRow) -> SnapshotRow:
    """Return `newest` with the place in the log and the log's clock of `then`, if both are of the same log.

    Event time goes on from the later one: it never falls from epoch to epoch, although the log is read again.
    """
    if not _is_of_same_log(newest, then):
        return newest
    return newest._replace(
        offsets=then.offsets,
        event_time=max((at for at in (newest.event_time, then.event_time) if at is not None), default=None),
        last_append=then.last_append,
        last_tick=then.last_tick,
        last_tick_append=then.last_tick_append,
        clock_millis=then.clock_millis,
    )
