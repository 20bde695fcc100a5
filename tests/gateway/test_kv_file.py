"""A NameServer's KV file: taken over once, and in the end whole."""

import json

import pytest

from namesrv_stream.gateway.kv_table import MARK_KEY, MARK_NAMESPACE, commands_of, steps_of
from namesrv_stream.rules.record_types import DeleteKvConfig, PutKvConfig

TABLE = {"n": {"a": "1", "b": "2"}, "m": {"a": "3"}}
MARK = {MARK_NAMESPACE: {MARK_KEY: "is being taken over"}}


@pytest.fixture
def commands(tmp_path):
    file = tmp_path / "kvConfig.json"
    file.write_text(json.dumps({"configTable": TABLE}))
    return commands_of(file)


def applied(steps, kv):
    """The KV after these steps, as the registry would have it."""
    after = {namespace: dict(table) for namespace, table in kv.items()}
    for step in steps:
        table = after.setdefault(step.namespace, {})
        if isinstance(step, PutKvConfig):
            table[step.key] = step.value
        else:
            table.pop(step.key, None)
    return after


def test_empty_registry_takes_all_over_between_the_mark_and_its_end(commands):
    steps = steps_of(commands, {})
    assert [type(step) for step in steps] == [PutKvConfig] * 4 + [DeleteKvConfig]
    assert applied(steps, {}) == TABLE | {MARK_NAMESPACE: {}}


def test_a_takeover_that_is_interrupted_after_any_step_is_finished_by_the_next_start(commands):
    whole = steps_of(commands, {})
    for done in range(len(whole)):
        kv = applied(whole[:done], {})
        assert applied(steps_of(commands, kv), kv) == applied(whole, {}), f"after {done} steps"


def test_what_an_operator_has_changed_meanwhile_stays(commands):
    kv = MARK | {"n": {"a": "changed"}}
    assert applied(steps_of(commands, kv), kv)["n"] == {"a": "changed", "b": "2"}


@pytest.mark.parametrize("kv", [{"n": {}}, {"other": {"k": "v"}}, {MARK_NAMESPACE: {}}])
def test_a_registry_with_a_kv_of_its_own_or_a_finished_takeover_takes_nothing(commands, kv):
    assert steps_of(commands, kv) == []


def test_no_file_takes_nothing_and_leaves_the_mark_to_who_has_it(tmp_path):
    assert steps_of(commands_of(tmp_path / "none.json"), MARK) == []
