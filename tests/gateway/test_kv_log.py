"""The KV table is in the log of a gateway (K6), a line an entry, and bounded."""

import logging

from tenacity import retry, retry_if_exception_type, stop_after_delay

from namesrv_stream.gateway import kv_table
from namesrv_stream.gateway.background_gateway import BackgroundGateway
from namesrv_stream.gateway.kv_table import MOST_CHARS, MOST_ENTRIES, kv_lines


def test_k6_the_table_is_logged_again_and_again(registry, settings, monkeypatch, caplog):
    monkeypatch.setattr(kv_table, "_FIRST_AFTER_S", 0.001)
    monkeypatch.setattr(kv_table, "_EVERY_S", 0.001)
    caplog.set_level(logging.INFO)

    @retry(stop=stop_after_delay(60), retry=retry_if_exception_type(AssertionError), reraise=True)
    def it_is_logged_twice():
        entry = "configTable NS: ORDER_TOPIC_CONFIG Key: TopicA Value: broker-a:8"
        assert caplog.messages.count(entry) > 1

    with BackgroundGateway(settings()):
        it_is_logged_twice()


def test_k6_a_large_table_is_cut():
    table = {"NS": {f"k{index}": "v" for index in range(MOST_ENTRIES + 7)}, "Empty": {}}
    lines = list(kv_lines(table))
    assert lines[0] == "configTable SIZE: 2"
    assert len(lines) == MOST_ENTRIES + 2
    assert "7 more entries" in lines[-1]
    assert len(list(kv_lines({"NS": {"k": "x" * 10_000}}))[1]) < MOST_CHARS + 100
