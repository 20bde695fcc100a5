"""The cases in tests/job/batches.yaml: micro-batches, what each publishes, and what the tables hold at the end.

A step is a micro-batch: its records, and with `->` its outcome, which is the kind of what it published and the tables
that have changed with it, or `nothing`. A record is `KIND ADDRESS MILLISECONDS [FIELD=VALUE ...]` with A or B for an
address, or `KIND MILLISECONDS`; a `spoilt` registration has mappings that cannot be read, `evict` names the last sign
of life of the state that goes, `junk` is no JSON. `stop` ends the job in order, `restart` begins another run on the
same log, or `restart anew` on a copy of it.

A table's rows are those that it has at the end, by the columns that are named. `read`: the next offset. `logged`: all
warnings. `metrics`: some lines of the job's page.
"""

import logging

import pytest
from prometheus_client import generate_latest

from namesrv_stream.answers.absences import NAMESPACE, absence_value
from namesrv_stream.records import encode_record
from namesrv_stream.rules.record_types import DataVersion, PutKvConfig, RequestRefused
from namesrv_stream.tables.schemas import TABLES
from tests.data import data, params, require_known
from tests.job.batches_run import (
    T0,
    A,
    B,
    Registry,
    event,
    expired,
    heartbeat,
    registered,
    tick,
    unregistered,
    with_bad_mappings,
)
from tests.timed_log import millis_of, step_of

CASES = params(data(__file__, "batches.yaml"))
ADDRESSES = {"A": A, "B": B}
REFUSED = RequestRefused(request="PUT_KV_CONFIG", requested_by="eve@10.0.0.9", missing="the admin role", count=7)

PLAN = PutKvConfig(namespace=NAMESPACE, key=f"group/b@{T0}", value=absence_value("b", T0 + 20_000, None, None))
"""A planned absence of the first 20 seconds."""


def register(address, at_ms, offset, counter=0, **fields):
    return registered(address, at_ms, offset, data_version=DataVersion(0, 1, counter), **fields)


OF_BROKERS = {
    "registers": register,
    "registers badly": lambda *said, **fields: with_bad_mappings(register(*said, **fields)),
    "heartbeat": heartbeat,
    "unregisters": unregistered,
}
OTHERS = {
    "tick": tick,
    "junk": lambda at_ms, offset: event("", at_ms, offset, b"junk"),
    "plan": lambda at_ms, offset: event("", at_ms, offset, encode_record(PLAN)),
    "refusal": lambda at_ms, offset: event("", at_ms, offset, encode_record(REFUSED)),
}


class Play:
    """One case, from run to run."""

    def __init__(self, folder, settings):
        self._folder, self._settings = folder, settings
        self.registry = Registry(folder, **settings)
        self._offset = 0

    def step(self, acts):
        """Do it. Return what it has published."""
        before = self.registry.publisher.last
        match [each.words for each in acts]:
            case [["job", "stops"]]:
                self.registry.batches.close()
            case [["job", "restarts"]]:
                self.registry = Registry(self._folder, "run-2", log=self.registry.log, **self._settings)
            case [["job", "restarts", "anew"]]:
                self.registry, self._offset = Registry(self._folder, "run-2", is_new_log=True), 0
            case [["an", "empty", "batch"]]:
                self.registry.handle()
            case _:
                self.registry.handle(*map(self._event, acts))
        last = self.registry.publisher.last
        changed = (name for name in sorted(last.versions) if last.versions[name] != before.versions.get(name))
        return [*[last.kind] * (last.epoch - before.epoch), *changed] or ["nothing"]

    def _event(self, act):
        match act.words:
            case ["state", "evicts", letter]:
                return expired(ADDRESSES[letter], round(millis_of(act.fields["heard"])))
            case [what]:
                made = OTHERS[what](round(act.at_ms), self._offset)
            case [letter, *what]:
                made = OF_BROKERS[" ".join(what)](ADDRESSES[letter], round(act.at_ms), self._offset, **act.fields)
        self._offset += 1
        return made

    def rows(self, name):
        """Return the rows of a table with addresses as letters and times from the beginning of the case."""
        return [
            {column: self._short(value) for column, value in row._asdict().items()}
            for row in sorted(self.registry.rows(name), key=str)
        ]

    @staticmethod
    def _short(value):
        match value:
            case int() if value >= T0:
                return value - T0
            case tuple():
                return list(value)
            case str():
                return {A: "A", B: "B"}.get(value, value)
        return value


@pytest.mark.parametrize("case", CASES)
def test_each_case_of_batches_is_as_it_says(case, tmp_path, caplog):
    require_known(case, f"steps settings read logged metrics {' '.join(TABLES)}")
    play = Play(tmp_path / "registry", case.get("settings", {}))
    for step in map(step_of, case["steps"]):
        published = play.step(step.acts)
        assert step.facts in (None, [published]), step
    heads, last = play.registry.heads(), play.registry.publisher.last
    assert heads.items() >= last.versions.items(), "nothing was committed that no snapshot names"
    assert last.offsets[0] == case.get("read", last.offsets[0])
    for name in case.keys() & TABLES.keys():
        wanted, rows = case[name], play.rows(name)
        assert [{column: row[column] for column in each} for each, row in zip(wanted, rows, strict=True)] == wanted
    of_job = (each for each in caplog.records if ".gateway." not in each.name)  # one of another test may be ending
    warnings = [each.getMessage() for each in of_job if each.levelno >= logging.WARNING]
    for text, warning in zip(case.get("logged", []), warnings, strict=True):
        assert text in warning.replace(A, "A").replace(B, "B")
    page = generate_latest(play.registry.batches.metrics.registry).decode().splitlines()
    assert {f"namesrv_{line}" for line in case.get("metrics", [])} <= set(page)
