"""The KV table is in the log of a gateway (K6), a line an entry, and bounded."""

import logging

from namesrv_stream.gateway import readers
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.gateway.readers import MAX_KV_CHARS, MAX_KV_LOGGED, kv_lines
from tests.waiting import until


def test_k6_the_table_is_logged_again_and_again(registry, settings, monkeypatch, caplog):
    monkeypatch.setattr(readers, "_KV_LOG_AFTER_S", 0.001)
    monkeypatch.setattr(readers, "_KV_LOG_EVERY_S", 0.001)
    caplog.set_level(logging.INFO)

    with BackgroundGateway(settings()):
        entry = "configTable NS: ORDER_TOPIC_CONFIG Key: TopicA Value: broker-a:8"
        until(lambda: caplog.messages.count(entry) > 1)


def test_k6_a_large_table_is_cut():
    table = {"NS": {f"k{index}": "v" for index in range(MAX_KV_LOGGED + 7)}, "Empty": {}}
    lines = list(kv_lines(table))
    assert lines[0] == "configTable SIZE: 2"
    assert len(lines) == MAX_KV_LOGGED + 2
    assert "7 more entries" in lines[-1]
    assert len(list(kv_lines({"NS": {"k": "x" * 10_000}}))[1]) < MAX_KV_CHARS + 100
