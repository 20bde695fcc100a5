"""Operator commands in the view and on the page of the tables: none is missing."""

import re
from pathlib import Path

import pytest

import namesrv_stream.analysis
from namesrv_stream.answers.accounts import events, why
from namesrv_stream.answers.events import events_by_epoch, events_of_record
from namesrv_stream.answers.overview import overview
from namesrv_stream.answers.questions import AskEvents, AskWhy
from namesrv_stream.rules.record_types import Command, DeleteTopic
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tools.restore import Cause
from tests.answers.by_the_hour import ADDRESSES, hours
from tests.answers.seeded import HOUR_MS

COMMAND_TYPES = [str(each.__struct_config__.tag) for each in Command.__args__]
VIEWS = (Path(namesrv_stream.analysis.__file__).parent / "views.sql").read_text("utf-8")
TABLES = (Path(__file__).parents[2] / "docs" / "tables.md").read_text("utf-8")


@pytest.mark.parametrize("command", [*COMMAND_TYPES, *Cause.__args__])
def test_the_view_of_operator_commands_and_the_page_of_the_tables_have_every_command(command):
    assert f"'{command}'" in re.search(r"VIEW operator_command AS(.*?);", VIEWS, re.DOTALL)[1]
    assert re.search(rf"^\|[^|]*\b{command}\b[^|]*\|", TABLES, re.MULTILINE)


@pytest.mark.parametrize("listed_places", [1, 5_000])
def test_a_command_that_each_gateway_got_is_told_once_and_the_table_has_both(
    root, registry, monkeypatch, listed_places
):
    """The other gateway is asked half a second later; a tenth of an hour later somebody asks again.

    The answers are the same if there are more places in the history than one condition lists.
    """
    monkeypatch.setattr("namesrv_stream.answers.events._MAX_PLACES", listed_places)
    registry.register(hours(1), ADDRESSES["A"], "broker-a", topics=["T"])
    for at_ms, port in ((0, 1), (500, 2), (HOUR_MS // 10, 3)):
        registry.command(hours(2) + at_ms, DeleteTopic(topic="T", requested_by=f"ann@10.0.0.9:{port}"))
    registry.publish(at_ms=hours(2.5))
    registry = Registry(root).newest()
    asked = [f"ann@10.0.0.9:{port}" for port in (1, 3)]
    for limit, told in ((9, asked), (2, asked), (1, asked[1:])):
        found = events(registry, AskEvents(types=["DELETE_TOPIC_IN_NAMESRV"], limit=limit))
        assert ([each.requested_by for each in found.events], found.total) == (told, 2)
    every = events(registry, AskEvents(limit=99))
    by_epoch = events_by_epoch(registry, 0, alive=1)
    assert every.total == len(every.events) == sum(each.counts.total() for each in by_epoch)
    of_topic = events(registry, AskEvents(topic="T", limit=9)).events
    assert [each.requested_by for each in of_topic if each.requested_by] == asked
    assert sum("ann@" in each.text for each in why(registry, "T", AskWhy(is_topic=True)).sentences) == 2
    assert sum("ann@" in each.text for each in overview(registry).events) == 2
    places = [LogPosition(0, 0, offset) for offset in range(9)]
    lines = [line.type for at in places for line in events_of_record(registry, at, 0)]
    assert lines.count("DELETE_TOPIC_IN_NAMESRV") == 3
