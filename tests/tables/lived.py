"""A log that was published in epochs, beside what the rules say of each."""

from pathlib import Path

from hypothesis import Phase

from chaos.oracle import Oracle, contents
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.registry_tables import net_of
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.writer import RustWriter, changes_to_write
from tests.clock import now_ms
from tests.tables.ages import make_older

NOW = now_ms()
NO_SHRINKING = [Phase.explicit, Phase.reuse, Phase.generate]  # each example makes ten tables
NOT_EXACT = {"last_update_timestamp": 0, "clock_millis": None, "channels": {}, "tokens": ()}


def exact(tables):
    """All rows, without signs of life and tokens, which no line of the history has."""
    found = contents(tables)
    return found | {"live": {address: row._replace(**NOT_EXACT) for address, row in found["live"].items()}}


class Lived:
    """A log that was published in epochs, and what the rules said: tables of each epoch and after each line.

    The epochs were published `gap_ms` apart, the last one now, and their files are as old as they are.
    """

    def __init__(self, root, log, cuts, gap_ms):
        self.root, self._oracle, self._files = Root(root), Oracle(NamesrvSettings()), set()
        ends = sorted({1 + cut % len(log) for cut in cuts} | {len(log)})
        ages_ms = {end: gap_ms * number for number, end in enumerate(reversed(ends))}
        self._publisher = Publisher.claim(RustWriter(self.root), "run", NOW - gap_ms * len(ends))
        self._make_files_older(gap_ms * len(ends))
        self._changes, self._events, self._times = [], [], [0]
        self.of_epoch = {1: exact(self._oracle.registry.view())}
        self.line_times, self.after_lines = [], {0: self.of_epoch[1]}
        for number, record in enumerate(log, 1):
            self._apply(record)
            if number in ages_ms:
                self._publish(number, ages_ms[number])
                self._make_files_older(ages_ms[number])

    def _apply(self, record):
        self._oracle.apply(record)
        came = self._oracle.registry.take_changes()
        self._changes += came.changes
        self._events += came.events
        self._times.append(max(self._times[-1], record.append_time_ms))
        self.line_times += [line.event_time for line in came.events]
        self.after_lines.setdefault(len(self.line_times), exact(self._oracle.registry.view()))

    def _publish(self, next_offset, age_ms):
        at_ms, changes = NOW - age_ms, changes_to_write(net_of(self._changes))
        times = [self._times[-1], *self.line_times]
        row = self._publisher.publish(Batch("query", 0, max(times), {0: next_offset}, changes, self._events), at_ms)
        self._changes, self._events = [], []
        self.of_epoch[row.epoch] = exact(self._oracle.registry.view())

    def _make_files_older(self, by_ms):
        files = {path for path in Path(self.root.url).rglob("*") if path.is_file()}
        make_older(files - self._files, by_ms)
        self._files = files

    def at(self, at_ms):
        """The tables of a moment; None if times of the log fall there, so that no state of the rules has its lines."""
        is_past = [at <= at_ms for at in self.line_times]
        return self.after_lines[sum(is_past)] if is_past == sorted(is_past, reverse=True) else None
