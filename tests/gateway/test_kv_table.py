"""A NameServer's KV file is read into commands, and the KV table is in the log of a gateway (K6), bounded."""

import json
import logging

import pytest

from namesrv_stream.gateway import kv_table
from namesrv_stream.gateway.kv_table import MAX_CHARS, MAX_ENTRIES, kv_commands, kv_lines, kv_not_in
from namesrv_stream.gateway.launch import BackgroundGateway
from tests.waiting import until


def test_each_entry_of_the_file_is_a_command(tmp_path):
    file = tmp_path / "kvConfig.json"
    file.write_text(json.dumps({"configTable": {"n": {"a": "1", "b": "2"}, "m": {"a": "3", "": "4"}}}))
    assert [(each.namespace, each.key, each.value) for each in kv_commands(file)] == [
        ("n", "a", "1"),
        ("n", "b", "2"),
        ("m", "a", "3"),
    ]
    others = kv_not_in({"n": {"a": "1", "b": "9"}}, kv_commands(file))
    assert [(each.namespace, each.key) for each in others] == [("n", "b"), ("m", "a")]


@pytest.mark.parametrize(("content", "told"), [(None, False), ("", False), ("[", True)])
def test_no_file_is_no_command_and_an_unreadable_one_is_logged(tmp_path, caplog, content, told):
    file = tmp_path / "kvConfig.json"
    if content is not None:
        file.write_text(content)
    assert kv_commands(file) == []
    assert ("cannot read kvConfigPath" in caplog.text) is told
    assert kv_commands(file, is_expected=True) == []
    assert ("cannot read kvConfigPath" in caplog.text) is (told or content is None)


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
