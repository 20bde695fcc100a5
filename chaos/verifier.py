"""Compares every snapshot, and all that the onlookers saw, with the rules' own answer for the dumped log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.onlookers import comparable
from chaos.oracle import Contents, Oracle, contents, without_life, without_place
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, PastUnknownError
from namesrv_stream.kafka.record_reader import LOG_PARTITION, RecordReader
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lease import LogClock
from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.schemas import BROKER_EVENT, LIVE, REJECTED, ROUTE_TABLES

REPAIRED = "REPAIR"
"""Type of the line of history that a repair writes, and no record of the log."""


class DifferenceError(NamesrvError):
    """The tables or a reader differ from what the rules make of the log."""

    def __init__(self, who: str, snapshot: str, what: str) -> None:
        super().__init__(f"{who}, {snapshot}: {what}. Start again with the seed that was printed to see it once more.")
        self.who = who


class Verifier:
    """Follows a registry and its log with one oracle. `snapshots` counts those compared."""

    def __init__(self, settings: NamesrvSettings, reader: RecordReader) -> None:
        self.snapshots: list[SnapshotRow] = []
        self._settings = settings
        self._root = settings.delta_root
        self._log = reader
        self._repaired: dict[int, SnapshotRow] = {}
        """Snapshots of repairs, by the offset at which the log goes on: with the log's clock as it is then."""
        self._begin()
        self._wanted: dict[int, Contents] = {}
        self._answers: list[tuple[Any, Any]] = []

    def _begin(self) -> None:
        self._oracle = Oracle(self._settings)
        self._next_offset = 0
        self._history: list[BrokerEventRow] = []

    def check(self) -> None:
        """Compare all snapshots since the last call, and history and rejected records as of the newest one."""
        reader = Registry(self._root)
        known = self.snapshots[-1].epoch if self.snapshots else 0
        rows = sorted(row for row in reader.read(lambda snapshots: snapshots.readable()) if row.epoch > known)
        _require("snapshots", "in a row", [row.epoch for row in rows], list(range(known + 1, known + 1 + len(rows))))
        for row in rows:
            self._advance(row)
            self._compare(reader, row)
            self.snapshots.append(row)
        if rows:
            self._compare_appended(reader, rows[-1])

    def check_reader(self, seen: Sequence[tuple[int, Contents]]) -> None:
        """Compare what a Registry saw with the rules."""
        for epoch, found in seen:
            _require("Registry", f"epoch {epoch}", found, self._wanted[epoch])

    def check_gateway(self, seen: Sequence[tuple[Any, Any]]) -> None:
        """Each answer of a gateway has to be that of a published snapshot, in their order."""
        at = 0
        for answer in seen:
            at = next((n for n, wanted in enumerate(self._answers[at:], at) if wanted == answer), -1)
            if at < 0:
                raise DifferenceError("gateway", "no snapshot", f"answered {answer}")

    def check_spark(self, seen: Sequence[tuple[int, list[Any], Mapping[tuple[str, int], str], list[str]]]) -> None:
        """Compare what Spark SQL found in three tables with the rules."""
        for epoch, topics, holders, live in seen:
            wanted = self._wanted[epoch]
            rows = sorted(row for of_topic in wanted["topic"].values() for row in of_topic)
            brokers = {
                (name, number): row.broker_addr for name, ids in wanted["broker"].items() for number, row in ids.items()
            }
            _require("Spark SQL", f"epoch {epoch}", (topics, holders, live), (rows, brokers, sorted(wanted["live"])))

    def check_past(self) -> dict[str, float]:
        """Compare every snapshot that was compared before: it is as it was, or refused for lost rows of the history.

        Return how many are refused.
        """
        reader, refused = Registry(self._root), 0
        for epoch, wanted in self._wanted.items():
            try:
                found = contents(reader.at(epoch).routes)
            except PastUnknownError:
                refused += 1
                continue
            sides = (
                {**side, LIVE.name: {key: without_life(row) for key, row in side[LIVE.name].items()}}
                for side in (found, wanted)
            )
            _require("the past", f"epoch {epoch}", *sides)
        return {"refused_epochs": refused}

    def _advance(self, row: SnapshotRow) -> None:
        """Apply the log up to a snapshot. A repair goes back in the log, and what follows is told again."""
        offset = row.offsets.get(LOG_PARTITION, 0)
        if offset < self._next_offset:
            told = self._history
            self._begin()
            self._apply_until(offset)
            self._history = told
        self._apply_until(offset)
        if row.kind == "STOP" and row.last_tick_append is None:
            self._repaired[offset] = row

    def _apply_until(self, offset: int) -> None:
        for record in self._log.between(self._next_offset, offset):
            if (repaired := self._repaired.get(record.offset)) is not None:
                self._oracle.registry.clock = LogClock.of(repaired)
            self._oracle.apply(record)
        self._next_offset = max(offset, self._next_offset)
        self._history += self._oracle.take_history()

    def _compare(self, reader: Registry, row: SnapshotRow) -> None:
        """Compare a snapshot. Signs of life are known of the newest one alone."""
        wanted, found = self._oracle.contents(), contents(reader.at(row.epoch).routes)
        is_past = row.epoch != reader.newest().snapshot.epoch
        for table, rows in wanted.items():
            sides: tuple[Any, ...] = (found[table], rows)
            if is_past and table == LIVE.name:
                sides = tuple({key: without_life(lease) for key, lease in side.items()} for side in sides)
            _require(table, f"epoch {row.epoch} at offset {self._next_offset}", *sides)
        self._wanted[row.epoch] = wanted
        self._answers.append(comparable(lookup.cluster_info(self._oracle.registry.view())))

    def _compare_appended(self, reader: Registry, row: SnapshotRow) -> None:
        at = reader.published(row)
        lines = sorted(rows_from_arrow(BROKER_EVENT, at[BROKER_EVENT.name]), key=lambda line: line[:2])
        told = [without_place(line) for line in lines if line.type != REPAIRED]
        _require("broker_event", f"epoch {row.epoch}", told, self._history)
        for spec in ROUTE_TABLES:
            _require("row_change", f"epoch {row.epoch}", at.drift(spec), [])
        rejected = sorted(each.offset for each in rows_from_arrow(REJECTED, at[REJECTED.name]))
        _require("rejected", f"epoch {row.epoch}", rejected, self._oracle.rejected)


def _require(who: str, snapshot: str, found: Any, wanted: Any) -> None:
    if found == wanted:
        return
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        keys = [key for key in {*found, *wanted} if found.get(key) != wanted.get(key)][:3]
        found, wanted = {key: found.get(key) for key in keys}, {key: wanted.get(key) for key in keys}
    elif isinstance(found, list) and isinstance(wanted, list):
        first = next((n for n, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]), -1)
        found, wanted = (len(found), found[first]), (len(wanted), wanted[first])
    raise DifferenceError(who, snapshot, f"found {found}, and by the rules it is {wanted}")
