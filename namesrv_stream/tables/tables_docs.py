"""Write the columns of each table in docs/tables.md from the schemas, so that docs and Delta agree.

`python -m namesrv_stream.tables.tables_docs` writes them.
"""

from __future__ import annotations

from pathlib import Path

from namesrv_stream.tables.schemas import TABLES, Column, TableSpec, type_name

_END = "<!-- end of columns -->\n"


def columns_table(spec: TableSpec) -> str:
    """Return the columns of a table in Markdown, and its constraints."""
    rows = [_table_row(column) for column in spec.stored_columns]
    checks = f"\nCHECK: {', '.join(f'`{condition}`' for condition in spec.checks.values())}.\n" if spec.checks else ""
    return "\n".join(["| column | type | |", "|---|---|---|", *rows]) + "\n" + checks


def _table_row(column: Column) -> str:
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
    document = _replaced(
        document, "<!-- tables: written by `python -m namesrv_stream.tables.tables_docs` -->\n", tables_list()
    )
    for spec in TABLES.values():
        document = _replaced(document, f"<!-- columns of {spec.name} -->\n", columns_table(spec))
    return document


def _replaced(document: str, begin: str, text: str) -> str:
    before, rest = document.split(begin)
    return before + begin + text + _END + rest.split(_END, 1)[1]


def _write(file: Path) -> None:
    file.write_text(with_columns(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    _write(Path(__file__).parents[2] / "docs" / "tables.md")
