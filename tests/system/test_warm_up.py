"""A job that waits for another one's end warms its session up, and throws away what comes of it."""

import logging
from pathlib import Path

import pytest

from namesrv_stream.stream.warm_up import warm_up
from tests.system.heartbeats import registration


@pytest.mark.parametrize("is_over", [False, True], ids=["to its end", "until this job's turn comes"])
def test_a_warm_up_leaves_neither_a_query_nor_a_file(spark, heartbeats, caplog, is_over):
    heartbeats.say(registration(1))
    session = spark.newSession()  # it sets options of the session for its query
    with caplog.at_level(logging.INFO):
        warm_up(session, heartbeats.settings, "a-run", lambda: is_over)
    assert [record.message for record in caplog.records if record.name.startswith("namesrv_stream.stream")] == [
        "warms the session up while another job is active"
    ]
    assert not [query for query in session.streams.active if query.name == "warm-up"]
    assert not list(Path(heartbeats.settings.checkpoint_location).glob("warm-up-*"))
