"""A NameServer's KV file is read into commands."""

import json

import pytest

from namesrv_stream.gateway.kv_table import kv_commands, kv_not_in


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
    assert ("is not taken over" in caplog.text) is told
    assert kv_commands(file, is_expected=True) == []
    assert ("is not taken over" in caplog.text) is (told or content is None)
