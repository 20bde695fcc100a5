"""The dependencies in pyproject.toml beside the imports of the package."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from importlib.util import find_spec
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
USED_BY_A_LIBRARY = {
    "protobuf": "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pandas": "pyspark.sql.pandas.conversion",
    "httptools": "uvicorn.protocols.http.httptools_impl",
}
"""Dependency that the package does not import -> the module of another dependency that does."""


def names(requirements):
    return {re.match(r"[\w.-]+", each)[0].lower().replace("_", "-") for each in requirements}


def imports(files):
    """Distributions that the files import, also within functions. A module of none is its own name."""
    modules = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                modules |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules.add(node.module)
    of_module = packages_distributions()
    tops = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"namesrv_stream"}
    return {name.lower().replace("_", "-") for top in tops for name in of_module.get(top, [top])}


def test_the_package_imports_what_a_wheel_brings_and_asks_for_nothing_that_neither_it_nor_a_library_of_it_imports():
    package, declared = imports((CHECKOUT / "namesrv_stream").rglob("*.py")), names(PROJECT["dependencies"])
    brought = names(each for name in declared for each in requires(name) or () if "extra ==" not in each)
    assert package - declared - brought == names(PROJECT["optional-dependencies"]["analysis"])
    assert declared - package == set(USED_BY_A_LIBRARY)
    for name, module in USED_BY_A_LIBRARY.items():
        assert name in imports([Path(find_spec(module).origin)])


def test_the_heartbeat_agent_needs_its_extra_alone():
    agent = imports([CHECKOUT / "jobs" / "heartbeat_agent.py"])
    assert agent == names(PROJECT["optional-dependencies"]["agent"]) == {"kafka-python"}
