"""Write what docs have from the code: settings, conf/namesrv.properties, columns of tables, and questions.

`python -m tests.reference_docs` writes all of them. Tests compare them with the code.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import click
from pydantic.fields import FieldInfo

from namesrv_stream.answers.questions import (
    ALL,
    AskBroker,
    AskBrokers,
    AskChurn,
    AskDiff,
    AskEvents,
    AskImpact,
    AskIncidents,
    AskResilience,
    AskSnapshots,
    AskTimeline,
    AskTopic,
    AskTopics,
    AskWhy,
    Question,
)
from namesrv_stream.cli.entry import main
from namesrv_stream.config.rocketmq_settings import RocketmqSettings
from namesrv_stream.config.settings import CATALOGUE, NamesrvSettings, SettingInfo
from namesrv_stream.tables.schemas import TABLES, Column, TableSpec, type_name

ROOT = Path(__file__).parents[1]
BEGIN = "<!-- settings: written by `python -m tests.reference_docs` -->\n"
END = "<!-- end of settings -->\n"


def _meanings() -> dict[str, str]:
    """Return the meanings of all settings by key: the docstrings below the fields."""
    docstrings = {}
    for model in (RocketmqSettings, NamesrvSettings):
        [definition] = ast.parse(inspect.getsource(model)).body
        assert isinstance(definition, ast.ClassDef)
        for field, below in pairwise(definition.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    docstrings[name] = " ".join(text.split())
    return {key: docstrings[info.name] for key, info in CATALOGUE.items()}


MEANINGS = _meanings()
_SHOWN_DEFAULTS = {
    "checkpoint_location": "<delta.root>-checkpoint",
    "job_temp_folder": "<checkpoint.location>-tmp",
}
"""Defaults that follow other settings."""


def settings_table() -> str:
    """Return the table of all settings in Markdown: key, default, reader, at start or live, meaning."""
    rows = [_settings_row(info) for info in CATALOGUE.values()]
    return "\n".join(["| key | default | read by | change | meaning |", "|---|---|---|---|---|", *rows]) + "\n"


def _settings_row(info: SettingInfo) -> str:
    default = _SHOWN_DEFAULTS.get(info.name, info.default)
    change = "" if not info.read_by else "live" if info.is_live else "at start"
    shown = [f"`{info.key}`", f"`{default}`" if default else "", info.read_by or "no effect here", change]
    return f"| {' | '.join([*shown, MEANINGS[info.key]])} |"


def example_file() -> str:
    """Return the text of a properties file that has every setting at its default, commented out."""
    head = textwrap.dedent("""\
        # Settings of namesrv-stream; give this file with -c. Every line shows a default: remove the # to change one.
        # An option of the command line or a variable NAMESRV_... wins. docs/configuration.md has more on each.
        """)
    return "\n".join([head, *map(_example, sorted(CATALOGUE.values(), key=_is_rocketmqs))])


def _example(info: SettingInfo) -> str:
    text = "\n".join(f"# {line}" for line in textwrap.wrap(MEANINGS[info.key], 110))
    return f"{text}\n" if info.key.endswith("*") else f"{text}\n#{info.key}={info.default}\n"


def _is_rocketmqs(info: SettingInfo) -> bool:
    return info.name in RocketmqSettings.model_fields


def with_table(document: str) -> str:
    """Return `document` with the table between its two marks replaced by the present one."""
    return _replaced(document, BEGIN, settings_table(), END)


_END_OF_COLUMNS = "<!-- end of columns -->\n"


def columns_table(spec: TableSpec) -> str:
    """Return the columns of a table in Markdown, and its constraints."""
    rows = [_column_row(column) for column in spec.stored_columns]
    checks = f"\nCHECK: {', '.join(f'`{condition}`' for condition in spec.checks.values())}.\n" if spec.checks else ""
    return "\n".join(["| column | type | |", "|---|---|---|", *rows]) + "\n" + checks


def _column_row(column: Column) -> str:
    required = "" if column.is_required else ", null"
    return f"| {column.name} | `{type_name(column.kind)}`{required} | {column.comment} |"


def tables_list() -> str:
    """Return the list of all tables in Markdown."""
    rows = [f"| [`{spec.name}`](#{spec.name}) | {spec.grain} | {_key(spec)} |" for spec in TABLES.values()]
    return "\n".join(["| table | one row is | key |", "|---|---|---|", *rows]) + "\n"


def _key(spec: TableSpec) -> str:
    return ", ".join(spec.key) or "append only"


def with_columns(document: str) -> str:
    """Return `document` with the text between its marks replaced by the present list and columns."""
    document = _replaced(document, "<!-- tables: written by `python -m tests.reference_docs` -->\n", tables_list())
    for spec in TABLES.values():
        document = _replaced(document, f"<!-- columns of {spec.name} -->\n", columns_table(spec))
    return document


PATHS = {
    "/v1/brokers": (AskBrokers, "brokerList"),
    "/v1/brokers/NAME": (AskBroker, ""),
    "/v1/topics": (AskTopics, "topicList"),
    "/v1/topics/TOPIC": (AskTopic, "topicRoute"),
    "/v1/events": (AskEvents, "history"),
    "/v1/why/NAME": (AskWhy, "why"),
    "/v1/diff": (AskDiff, "diff"),
    "/v1/snapshots": (AskSnapshots, "snapshots"),
    "/v1/timeline": (AskTimeline, ""),
    "/v1/churn": (AskChurn, ""),
    "/v1/incidents": (AskIncidents, "incidents"),
    "/v1/impact": (AskImpact, "impact"),
    "/v1/resilience": (AskResilience, "impact"),
}
"""Path -> the question that it asks, and the command that asks it too."""


def questions() -> str:
    """Return docs/questions.md: each question with its parameters, and the options of the command line."""
    every = "\n".join(_parameter_row(name, field, {}) for name, field in Question.model_fields.items())
    parts = [_QUESTIONS_HEAD + every]
    for path, (kind, command) in PATHS.items():
        params = main.get_command(None, command).params if command else []
        options = {str(each.name): each for each in params if isinstance(each, click.Option)}
        rows = [
            _parameter_row(name, field, options)
            for name, field in kind.model_fields.items()
            if name not in Question.model_fields
        ]
        also = f" `namesrv-stream {command}` asks it too." if command else ""
        table = "\n".join(["| parameter | option | default (HTTP; command line) | |", "|---|---|---|---|", *rows])
        parts.append(f"## {path}\n\n{kind.__doc__}{also}\n\n{table}")
    return "\n\n".join(parts) + "\n"


_QUESTIONS_HEAD = """# Questions

What can be asked about a moment: by HTTP ([the console](console.md)) and by the command line.
`python -m tests.reference_docs` writes this page. Each question also has these parameters; for the command line they
are `--tz` and `--as-of`. By HTTP, durations and times of day in `since`, `until` and `from` count back from the moment
that is asked about, which is the event time of the newest snapshot if no other one is named: the same question about
the same snapshot always has the same answer. On the command line they count back from now.

| parameter | option | default | |
|---|---|---|---|
"""


def _parameter_row(name: str, field: FieldInfo, options: Mapping[str, click.Parameter]) -> str:
    option = options.get(name)
    spellings = ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts)) if option else ""
    default = _default_text(field.default) if not field.is_required() else ""
    own = _default_text(option.default) if option and name in OF_OPTIONS else ""
    both = f"{default}; {own}" if own and own != default else default
    return f"| `{field.alias or name}` | {spellings} | {both} | {field.description} |"


OF_OPTIONS = ("limit", "sort", "versions")
"""Parameters whose default the command line may have differently."""


def _default_text(default: object) -> str:
    return "" if default in (None, "", []) else "all" if default == ALL else f"`{json.dumps(default)}`"


def _replaced(document: str, begin: str, text: str, end: str = _END_OF_COLUMNS) -> str:
    before, rest = document.split(begin)
    return before + begin + text + end + rest.split(end, 1)[1]


def _write() -> None:
    for name, changed in (("configuration", with_table), ("tables", with_columns)):
        document = ROOT / f"docs/{name}.md"
        document.write_text(changed(document.read_text(encoding="utf-8")), encoding="utf-8")
    (ROOT / "docs/questions.md").write_text(questions(), encoding="utf-8")
    (ROOT / "conf/namesrv.properties").write_text(example_file(), encoding="utf-8")


if __name__ == "__main__":
    _write()
