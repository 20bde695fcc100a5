"""The KV table is in the log of a gateway (K6), a line an entry, and bounded."""

import logging

from namesrv_stream.gateway import kv_table
from namesrv_stream.gateway.kv_table import MAX_CHARS, MAX_ENTRIES, kv_lines
from namesrv_stream.gateway.launch import BackgroundGateway
from tests.waiting import until


def test_k6_the_table_is_logged_again_and_again(registry, settings, monkeypatch, caplog):
    monkeypatch.setattr(kv_table, "_FIRST_AFTER_S", 0.001)
    monkeypatch.setattr(kv_table, "_EVERY_S", 0.001)
    caplog.set_level(logging.INFO)

    with BackgroundGateway(settings()):
        entry = "configTable NS: ORDER_TOPIC_CONFIG Key: TopicA Value: broker-a:8"
        until(lambda: caplog.messages.count(entry) > 1)


def test_k6_a_large_table_is_cut():
    table = {"NS": {f"k{index}": "v" for index in range(MAX_ENTRIES + 7)}, "Empty": {}}
    lines = list(kv_lines(table))
    assert lines[0] == "configTable SIZE: 2"
    assert len(lines) == MAX_ENTRIES + 2
    assert "7 more entries" in lines[-1]
    assert len(list(kv_lines({"NS": {"k": "x" * 10_000}}))[1]) < MAX_CHARS + 100
