"""Count the files under delta.root, with the rules, the publisher and the maintenance of the job on a clock of its own.

    .venv/bin/python -m benchmarks.files --brokers 22 --minutes 4320  # three days in which nothing changes
    .venv/bin/python -m benchmarks.files --brokers 100 --minutes 30 --change-every-s 5

Every change is a broker that unregisters or comes back; a publication follows each, as in the job. Delta removes files
by their age, and all are as old as the benchmark runs. So the daily VACUUM of `snapshot` is one without regard to age
here, and the log of `snapshot`, of which about an hour stays, is not counted.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.job.table_care import VACUUM_EVERY_S
from namesrv_stream.rules.record_types import BrokerHeartbeat, RegisterBroker, Scan, TopicConfig, UnregisterBroker
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.stream.micro_batch import PROGRESS_MS, PUBLICATIONS_BETWEEN_CARE
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.publication import MAX_SMALL_FILES, Batch, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT
from namesrv_stream.tables.writer import RowChanges, RustWriter, changes_to_write

_TOPICS = 20


class Simulation:
    """One registry at a simulated time, `now_ms`."""

    def __init__(self, root: Root, brokers: int, begin_ms: int) -> None:
        self.now_ms = begin_ms
        self._settings = NamesrvSettings.model_validate({"delta.root": root.url, "tickGapMillis": 0})
        self._registry = RouteRegistry(self._settings)
        self._publisher = Publisher.claim(RustWriter(root), "files", begin_ms)
        self._root = root
        self._away: set[int] = set()
        self._brokers = brokers
        self._offset = self._publications = 0
        self._maintained_at_ms = self._vacuumed_at_ms = self._published_at_ms = begin_ms
        for number in range(brokers):
            self._come(number)
        self._publish()

    def step(self, to_ms: int, changed: int | None) -> None:
        """Go on to `to_ms`: heartbeats and a tick, `changed` goes or comes back, and what is due is done."""
        self.now_ms = to_ms
        for number in set(range(self._brokers)) - self._away:
            self._apply(BrokerHeartbeat(broker_addr=_address(number)))
        self._apply(Scan())
        if changed is not None:
            self._toggle(changed)
        if changed is not None or to_ms - self._published_at_ms >= max(PROGRESS_MS, self._settings.live_refresh_millis):
            self._publish()
        if to_ms - self._maintained_at_ms >= self._settings.maintenance_millis:
            maintain(None, self._root, vacuum=False)
            self._maintained_at_ms = to_ms
        if to_ms - self._vacuumed_at_ms >= VACUUM_EVERY_S * 1000:
            self._root.open(SNAPSHOT).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
            self._vacuumed_at_ms = to_ms

    def _toggle(self, number: int) -> None:
        if number in self._away:
            self._come(number)
        else:
            self._away.add(number)
            self._apply(UnregisterBroker(broker_addr=_address(number)))

    def _come(self, number: int) -> None:
        self._away.discard(number)
        topics = [f"shared_{i}" if i < _TOPICS // 5 else f"topic_{number}_{i}" for i in range(_TOPICS)]
        self._apply(
            RegisterBroker(
                cluster_name="c",
                broker_name=f"broker-{number}",
                broker_id=0,
                broker_addr=_address(number),
                topic_config_table=dict.fromkeys(topics, TopicConfig(8, 8, 6)),
            )
        )

    def _apply(self, request: RegisterBroker | UnregisterBroker | BrokerHeartbeat | Scan) -> None:
        self._registry.apply(request, LogPosition(self.now_ms, 0, self._offset))
        self._offset += 1

    def _publish(self) -> None:
        came, signs = self._registry.take_changes(), self._registry.take_signs_of_life()
        changes = changes_to_write(came.changes)
        live = changes.get("live", RowChanges())
        rows = {row[0]: row for row in (*live.upserts, *signs)}
        changes["live"] = RowChanges(list(rows.values()), live.deletes)
        clock, offsets = self._registry.clock, {0: self._offset}
        batch = Batch("files", self._publications, self.now_ms, offsets, changes, came.events, clock=clock)
        self._publisher.publish(batch, self.now_ms)
        self._published_at_ms = self.now_ms
        self._publications += 1
        if self._publications % PUBLICATIONS_BETWEEN_CARE == 0:
            self._publisher.compact(MAX_SMALL_FILES)


def _address(number: int) -> str:
    return f"10.0.{number >> 8}.{number & 255}:10911"


def _times(minutes: int, change_every_s: int) -> Iterator[tuple[int, int | None]]:
    """Yield the times of the steps, in ms after the begin, and the number of the change at each."""
    every_ms = change_every_s * 1000 or PROGRESS_MS
    for at_ms in range(every_ms, minutes * 60_000 + 1, every_ms):
        yield at_ms, at_ms // every_ms if change_every_s else None


@click.command()
@click.option("--brokers", default=100)
@click.option("--minutes", default=30)
@click.option("--change-every-s", default=0, help="Time between two changes; 0: nothing changes.")
@click.option("--root", type=click.Path(path_type=Path), help="Keep the tables here.")
def main(brokers: int, minutes: int, change_every_s: int, root: Path | None) -> None:
    """Print the number of files and bytes, ten times, and at the end the files of each table."""
    begin_ms = time.time_ns() // 1_000_000 - minutes * 60_000
    with tempfile.TemporaryDirectory() as folder:
        place = root or Path(folder, "registry")
        simulation = Simulation(Root(str(place)), brokers, begin_ms)
        shown = max(5, minutes // 50 * 5)
        for at_ms, change in _times(minutes, change_every_s):
            simulation.step(begin_ms + at_ms, None if change is None else change * 7 % brokers)
            if at_ms % 60_000 == 0 and (at_ms // 60_000 % shown == 0):
                files = [path.stat().st_size for path in _counted(place)]
                click.echo(f"{at_ms // 60_000:>6} min: {len(files):>6} files, {sum(files) / 1e6:>7.1f} MB")
        tables = Counter(path.relative_to(place).parts[0] for path in _counted(place))
        click.echo(", ".join(f"{name} {count}" for name, count in tables.most_common()))


def _counted(place: Path) -> Iterator[Path]:
    log_of_snapshots = place / SNAPSHOT.name / "_delta_log"
    return (path for path in place.rglob("*") if path.is_file() and log_of_snapshots not in path.parents)


if __name__ == "__main__":
    main()
