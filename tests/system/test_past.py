"""A long history through Kafka, the streaming job and Delta, in minutes, equals that of the rules alone."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from namesrv_stream.rules.rows import BrokerEventRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.schemas import BROKER_EVENT
from namesrv_stream.tools.fleet.history import DAY_MS, Chronicle, chronicle_plan
from tests.answers.by_rules import events_of

DAYS = 0.5


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    root = tmp_path_factory.mktemp("past") / "registry"
    program = Path(sys.executable).with_name("namesrv-stream")
    command = [program, "fleet", "--history", str(DAYS), "--seed", "3", "--out", str(root)]
    done = subprocess.run(command, check=True, timeout=300, stderr=subprocess.PIPE, text=True)
    assert re.search(r"^namesrv-stream: [^\n]* \(\d+ s since the start\)$", done.stderr, re.MULTILINE), done.stderr
    return Registry(str(root))


def told_of(line: BrokerEventRow):
    """All but its place, since an expiry that crosses the end of a micro-batch comes in the next epoch and the rules
    get more ticks, and the rows of a lease, which know of signs of life when their batch ends."""
    heard_at = None if line.type == "MOVED" else line.last_heard_at
    return str(line._replace(epoch=0, seq=0, offset=0, changes=(), last_heard_at=heard_at))


@pytest.mark.full
@pytest.mark.system
def test_the_pipeline_leaves_the_same_history_as_the_rules(reader):
    newest = reader.newest().snapshot
    assert newest.event_time is not None
    told = rows_from_arrow(BROKER_EVENT, reader.published(newest)[BROKER_EVENT.name])
    story = Chronicle(chronicle_plan(3), newest.event_time - round(DAYS * DAY_MS), DAYS)
    assert sorted(map(told_of, told)) == sorted(map(told_of, events_of(story.records())))
