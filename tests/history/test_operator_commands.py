"""Operator commands in the view and on the page of the tables: none is missing."""

import re
from pathlib import Path

import pytest

import namesrv_stream.analysis
from namesrv_stream.rules.record_types import Command
from namesrv_stream.tools.restore import Cause

COMMAND_TYPES = [str(each.__struct_config__.tag) for each in Command.__args__]
VIEWS = (Path(namesrv_stream.analysis.__file__).parent / "views.sql").read_text("utf-8")
TABLES = (Path(__file__).parents[2] / "docs" / "tables.md").read_text("utf-8")


@pytest.mark.parametrize("command", [*COMMAND_TYPES, *Cause.__args__])
def test_the_view_of_operator_commands_and_the_page_of_the_tables_have_every_command(command):
    assert f"'{command}'" in re.search(r"VIEW operator_command AS(.*?);", VIEWS, re.DOTALL)[1]
    assert re.search(rf"^\|[^|]*\b{command}\b[^|]*\|", TABLES, re.MULTILINE)
