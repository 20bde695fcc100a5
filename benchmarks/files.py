"""Count the files under delta.root, with the rules, the publisher and the maintenance of the job on a clock of its own.

    .venv/bin/python -m benchmarks.files --brokers 22 --days 3 --minutes 0  # three days in which nothing changes
    .venv/bin/python -m benchmarks.files --days 30 --minutes 125 --change-every-s 5

Every change is a broker that unregisters or comes back. In the last `--minutes` a publication follows each change, as
in the job, and maintenance comes every hour. The days before are quicker: a publication has the changes of an hour,
before the last eight days those of a day, and maintenance comes every six hours. Of that time no more is kept than one
snapshot an hour or a day, and the history has each change.

Delta removes files by their age. So the process runs under a library, made here by `cc`, that puts the system's clock
ahead (benchmarks/set_clock.c), and each file gets the time at which it was written by that clock.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import click

from benchmarks.large_registry import RuledRegistry, address_of, master
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.job.micro_batch import PROGRESS_MS, PUBLICATIONS_BETWEEN_CARE
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    Request,
    Scan,
    TopicConfig,
    UnregisterBroker,
)
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.publication import MAX_SMALL_FILES
from namesrv_stream.tables.root import DAY_MS, HOUR_MS, Root

_TOPICS = 20
_MINUTE_MS = 60_000
_LARGE_TOPICS = 10_000
FILE = "SET_CLOCK_FILE"


class SetClock:
    """The system's clock of this process and its libraries, which the file named by SET_CLOCK_FILE puts ahead."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), 8)
        self._set: list[tuple[int, int]] = [(0, 0)]

    @classmethod
    def of_this_process(cls) -> Self:
        """Return the clock of a process that `under_set_clock` started."""
        return cls(Path(os.environ[FILE]))

    @property
    def real_ms(self) -> int:
        """The time of the machine's clock."""
        return time.time_ns() // 1_000_000 - self._set[-1][1]

    def go_to(self, at_ms: int) -> None:
        """Set the clock. It goes on from there."""
        real_ms = self.real_ms
        self._set.append((real_ms, at_ms - real_ms))
        self._shared[:] = (at_ms - real_ms).to_bytes(8, sys.byteorder, signed=True)

    def stamp(self, folder: Path) -> None:
        """Give each file that was written since the last call the time by this clock at which it was written."""
        real_ms = self.real_ms
        for file in _files(folder):
            written_ms = file.stat().st_mtime_ns // 1_000_000
            if written_ms <= real_ms:  # a file that has been stamped is ahead
                ahead_ms = self._set[bisect_right(self._set, (written_ms, DAY_MS * 1_000)) - 1][1]
                os.utime(file, times=((written_ms + ahead_ms) / 1_000,) * 2)


def under_set_clock(folder: Path, module: str, *arguments: str) -> int:
    """Run a program in a process whose clock can be set; return its exit status."""
    library, file = folder / "set_clock.so", folder / "ahead"
    source = Path(__file__).with_name("set_clock.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    file.write_bytes(bytes(8))
    environment = {**os.environ, "LD_PRELOAD": str(library), FILE: str(file)}
    return subprocess.run([sys.executable, "-m", module, *arguments], env=environment, check=False).returncode


class Simulation:
    """One registry at a simulated time, `now_ms`. `most_files` is the greatest number of files before a maintenance.

    `large`: further brokers, with 10,000 topics each, that stay.
    """

    def __init__(self, place: Path, brokers: int, clock: SetClock, large: int = 0) -> None:
        self._clock = clock
        self.now_ms = self._maintained_at_ms = self._published_at_ms = clock.real_ms
        self._place = place
        self._settings = NamesrvSettings.model_validate({"delta.root": str(place), "tickGapMillis": 0})
        self._registry = RuledRegistry(place, self.now_ms, self._settings)
        self._away: set[int] = set()
        self._brokers, self._large = brokers, large
        self._changes = self.most_files = 0
        for number in range(brokers + large):
            self._come(number)
        self._publish()

    def step(self, to_ms: int, change_every_ms: int, maintain_every_ms: int) -> None:
        """Go on to `to_ms`: changes, then heartbeats and a tick, and what is due is done."""
        for at_ms in range(self.now_ms + change_every_ms, to_ms + 1, change_every_ms) if change_every_ms else ():
            self.now_ms = at_ms
            self._changes += 1
            self._toggle(self._changes * 7 % self._brokers)
        self.now_ms = to_ms
        self._clock.go_to(to_ms)
        for number in set(range(self._brokers + self._large)) - self._away:
            self._apply(BrokerHeartbeat(broker_addr=address_of(number)))
        self._apply(Scan())
        waited_ms = to_ms - self._published_at_ms
        if change_every_ms or waited_ms >= PROGRESS_MS:
            self._publish()
        if to_ms - self._maintained_at_ms >= maintain_every_ms:
            self._maintain()

    def _maintain(self) -> None:
        self._clock.stamp(self._place)
        self.most_files = max(self.most_files, len(_files(self._place)))
        exact_ms = round(self._settings.snapshot_exact.total_seconds() * 1_000)
        maintain(Root(str(self._place)), exact_ms=exact_ms)
        self._maintained_at_ms = self.now_ms

    def _toggle(self, number: int) -> None:
        if number in self._away:
            self._come(number)
        else:
            self._away.add(number)
            self._apply(UnregisterBroker(broker_addr=address_of(number)))

    def _come(self, number: int) -> None:
        self._away.discard(number)
        count = _TOPICS if number < self._brokers else _LARGE_TOPICS
        topics = [f"shared_{i}" if i < _TOPICS // 5 else f"topic_{number}_{i}" for i in range(count)]
        self._apply(master(number, dict.fromkeys(topics, TopicConfig(8, 8, 6))))

    def _apply(self, request: Request) -> None:
        self._registry.at_ms = self.now_ms
        self._registry.apply(request)

    def _publish(self) -> None:
        self._registry.at_ms = self._published_at_ms = self.now_ms
        self._registry.publish()
        if self._registry.publications % PUBLICATIONS_BETWEEN_CARE == 0:
            self._registry.publisher.compact(MAX_SMALL_FILES)


def _times(begin_ms: int, days: int, minutes: int, change_every_ms: int) -> Iterator[int]:
    """Yield the times of the steps, in ms: those of the days, then those of the minutes."""
    hours = [*range(24, max(0, days - 8) * 24, 24), *range(max(0, days - 8) * 24 + 1, days * 24 + 1)]
    if change_every_ms:
        yield from (begin_ms + hour * HOUR_MS for hour in hours)
    else:
        yield from range(begin_ms + PROGRESS_MS, begin_ms + days * DAY_MS, PROGRESS_MS)
    every_ms = change_every_ms or PROGRESS_MS
    yield from range(begin_ms + days * DAY_MS + every_ms, begin_ms + days * DAY_MS + minutes * _MINUTE_MS + 1, every_ms)


@click.command()
@click.option("--brokers", default=100)
@click.option("--days", default=0, help="Days before the minutes.")
@click.option("--minutes", default=30, help="Minutes in which each change is published by itself.")
@click.option("--change-every-s", default=0, help="Time between two changes; 0: nothing changes.")
@click.option("--root", type=click.Path(path_type=Path), help="Keep the tables here.")
def main(brokers: int, days: int, minutes: int, change_every_s: int, root: Path | None) -> None:
    """Print the number of files and bytes as time passes, and at the end the files of each table."""
    with tempfile.TemporaryDirectory() as folder:
        if FILE not in os.environ:
            sys.exit(under_set_clock(Path(folder), "benchmarks.files", *sys.argv[1:]))
        place = root or Path(folder, "registry")
        simulation = Simulation(place, brokers, SetClock.of_this_process())
        begin_ms = shown_ms = simulation.now_ms
        for to_ms in _times(begin_ms, days, minutes, change_every_s * 1_000):
            in_days = to_ms - begin_ms < days * DAY_MS
            simulation.step(to_ms, change_every_s * 1_000, 6 * HOUR_MS if in_days else HOUR_MS)
            if to_ms - shown_ms >= (days * DAY_MS // 10 if in_days else 5 * _MINUTE_MS):
                shown_ms = to_ms
                _show(place, to_ms - begin_ms)
        _show(place, simulation.now_ms - begin_ms)
        click.echo(f"before a maintenance at most {simulation.most_files} files")
        tables = Counter(path.relative_to(place).parts[0] for path in _files(place))
        click.echo(", ".join(f"{name} {count}" for name, count in tables.most_common()))


def _show(place: Path, passed_ms: int) -> None:
    sizes = [path.stat().st_size for path in _files(place)]
    days, minutes = divmod(passed_ms // _MINUTE_MS, 24 * 60)
    click.echo(f"{days:>3} days {minutes:>5} min: {len(sizes):>6} files, {sum(sizes) / 1e6:>7.1f} MB")


def _files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()]


if __name__ == "__main__":
    main()
