"""Find words in texts for users that docs/voice.md replaces: `python -m tests.voice`, which `make lint` runs.

Texts for users are the strings of the package, but for docstrings that no command shows; the strings of the page; the
documentation; the alerts, dashboards and the chart's notes; and the texts of the notebooks.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORDS = re.compile(
    r"\bsigns? of life\b|\bgo(es)? on\b(?! (to|with|a|the|each|one|any|all|every|this|which|my|your|another)\b)"
    r"|(?<!made-)\banew\b|(?<!\bstopped )\bin order\b(?! (of|to|that|by)\b)|\bby itself\b"
    r"|(?<!there )\bis no\b(?! (longer|limit)\b)|\btakes? no messages\b"
    r"|\b(brokers?|topics?|it|they|that|which) (came|went)\b(?! (back|online|offline)\b)"
    r"|\bdecommission|\bputs? aside\b|\bguard against mass\b|\bout of the routes\b|\bgave no\b",
    re.IGNORECASE,
)
"""Words that the guide replaces. `stopped in order` is the name of a state in JSON."""

EXCEPTIONS = {
    "docs/voice.md": "the guide names the words",
    "docs/league.md": "titles and texts of reports by other people",
}
"""File -> why its texts may have these words."""

_TEXT_FILES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/*.md",
    "deploy/**/*.yml",
    "deploy/**/*.yaml",
    "deploy/**/*.json",
    "deploy/**/*.txt",
    "conf/*",
)
_PAGE_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`')
Found = Iterator[tuple[int, str]]


def strings_of(path: Path) -> Found:
    """Yield the strings of a Python file with their lines, and of its docstrings those of commands."""
    tree = ast.parse(path.read_text("utf-8"))
    silent = set()
    for node in ast.walk(tree):
        for each in getattr(node, "body", []) if isinstance(getattr(node, "body", None), list) else []:
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                silent.add(each.value)
        if isinstance(node, ast.FunctionDef) and any("command" in ast.dump(each) for each in node.decorator_list):
            silent.discard(getattr(node.body[0], "value", None))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in silent:
            yield node.lineno, node.value


def texts_of(path: Path) -> Found:
    """Yield the texts for users in a file, each with the number of its line."""
    text = path.read_text("utf-8")
    match path.suffix:
        case ".py":
            yield from strings_of(path)
        case ".js":
            for number, line in enumerate(text.split("\n"), 1):
                if not line.lstrip().startswith("//"):
                    yield from ((number, found[0]) for found in _PAGE_STRING.finditer(line))
        case ".ipynb":
            for cell in json.loads(text)["cells"]:
                if cell["cell_type"] == "markdown":
                    yield 0, "".join(cell["source"])
        case _:
            yield from enumerate(text.split("\n"), 1)


def files() -> Iterator[Path]:
    """Yield the files with texts for users."""
    for folder in ("namesrv_stream", "jobs"):
        yield from sorted((ROOT / folder).rglob("*.py"))
    yield from sorted((ROOT / "namesrv_stream" / "console" / "page").glob("*.js"))
    yield from sorted((ROOT / "notebooks").glob("*.ipynb"))
    for pattern in _TEXT_FILES:
        yield from sorted(path for path in ROOT.glob(pattern) if path.is_file())


def main() -> int:
    """Print each place of such a word, and return the exit status."""
    places = [
        f"{path.relative_to(ROOT)}:{line}: '{found[0]}' in: {' '.join(text.split())[:140]}"
        for path in files()
        if str(path.relative_to(ROOT)) not in EXCEPTIONS
        for line, text in texts_of(path)
        for found in WORDS.finditer(text)
    ]
    sys.stdout.write("\n".join([*places, f"{len(places)} words that docs/voice.md replaces.\n"]))
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
