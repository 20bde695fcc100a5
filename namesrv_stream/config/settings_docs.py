"""Write the table of settings in docs/configuration.md, and the example file conf/namesrv.properties.

`python -m namesrv_stream.config.settings_docs` writes both from the catalogue, so that they agree with the code.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from pathlib import Path

from namesrv_stream.config.rocketmq_settings import RocketmqSettings
from namesrv_stream.config.settings import CATALOGUE, NamesrvSettings, SettingInfo

BEGIN = "<!-- settings: written by `python -m namesrv_stream.config.settings_docs` -->\n"
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
    rows = [_table_row(info) for info in CATALOGUE.values()]
    return "\n".join(["| key | default | read by | change | meaning |", "|---|---|---|---|---|", *rows]) + "\n"


def _table_row(info: SettingInfo) -> str:
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
    before, rest = document.split(BEGIN)
    return before + BEGIN + settings_table() + END + rest.split(END)[1]


def _write(root: Path) -> None:
    document = root / "docs/configuration.md"
    document.write_text(with_table(document.read_text(encoding="utf-8")), encoding="utf-8")
    (root / "conf/namesrv.properties").write_text(example_file(), encoding="utf-8")


if __name__ == "__main__":
    _write(Path(__file__).parents[2])
