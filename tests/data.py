"""Data files of tests."""

from pathlib import Path
from typing import Any

import pytest
import yaml


class _OnceEach(yaml.SafeLoader):
    """Refuses a key that a mapping has twice, of which YAML keeps the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        assert not twice, f"there twice, the second time before{node.end_mark}: {twice}"
        return super().construct_mapping(node, deep)


def data(test: str, name: str) -> Any:
    """Return what a YAML file says; `name`: its path from the folder of the test, whose `__file__` is `test`."""
    return yaml.load((Path(test).parent / name).read_text("utf-8"), _OnceEach)


def params(rules: dict[str, Any]) -> list[Any]:
    """Return cases, each rule's one or several, as parameters of a test, which have the rule as their id."""
    assert all(rules.values()), "a rule has no case"
    named = {
        f"{rule} {number}" if isinstance(cases, list) else rule: case
        for rule, cases in rules.items()
        for number, case in enumerate(cases if isinstance(cases, list) else [cases])
    }
    return [pytest.param(case, id=name.replace(" ", "-")) for name, case in named.items()]


def require_known(case: Any, names: str) -> None:
    """Fail if a case of a data file has a key that its driver does not read: it would compare nothing."""
    assert case.keys() <= {*names.split()}, f"unknown: {case.keys() - {*names.split()}}"
