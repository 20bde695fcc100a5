"""The cases in tests/rules/history.yaml: every change of broker, cluster and filter rows has one line, with its cause.

A case has records whose lines are taken `first`, those that come `then`, and all lines of these. A record is a
registration, an `end` as a tick or a connection brings it, or any other as the log has it. Of a line the columns that
are named are as they stand, and `before` and `after` are all tables that it has rows of, by the columns of the rows.
"""

import json

import msgspec
import pytest

from namesrv_stream.records import decode_record
from namesrv_stream.rules.history import rows_before_and_after
from namesrv_stream.rules.record_types import BrokerHeartbeat, DataVersion
from tests.build import Log
from tests.data import data, params, require_known

CASES = params(data(__file__, "history.yaml"))


class Lines(Log):
    """A log and the lines of history that it makes."""

    def add(self, register=None, end=None, **said):
        if register:
            version = DataVersion(*said.pop("data_version", ()))
            self.register(register, data_version=version, **{"topics": ["T"]} | said)
        elif end:
            at = self.at()
            self.registry.apply(BrokerHeartbeat(broker_addr=said["of"]), at._replace(event_time=at.event_time - 1))
            self.registry.end(said["of"], end, at.event_time, at)
        else:
            self.apply(decode_record(json.dumps(said).encode()))

    def take_events(self):
        return self.registry.take_changes().events


def shown(line):
    """Return the columns of a line as they stand in a case."""
    before, after = rows_before_and_after(line)
    return line._asdict() | {
        "changes": list(line.changes),
        "command": line.command and json.loads(line.command),
        "data_version": line.data_version and list(msgspec.structs.astuple(line.data_version)),
        "before": before,
        "after": after,
    }


def assert_has(found, wanted):
    match wanted:
        case dict():
            for name, value in wanted.items():
                assert_has(found[name], value)
        case list():
            for each, value in zip(found, wanted, strict=True):
                assert_has(each, value)
        case _:
            assert found == wanted


@pytest.mark.parametrize("case", CASES)
def test_records_leave_the_lines_that_the_case_says(case):
    require_known(case, "first then lines")
    log = Lines()
    for record in case.get("first", []):
        log.add(**record)
    log.take_events()
    for record in case["then"]:
        log.add(**record)
    for line, wanted in zip(log.take_events(), case["lines"], strict=True):
        found = shown(line)
        assert_has(found, wanted)
        for side in wanted.keys() & {"before", "after"}:
            assert found[side].keys() == wanted[side].keys()


def test_each_of_very_many_topics_is_recorded():
    log = Lines()
    topics = sorted(f"T{i}" for i in range(1_000))
    log.add("a:1", topics=topics)
    assert [row["topic"] for row in rows_before_and_after(log.take_events()[-1])[1]["topic"]] == topics
