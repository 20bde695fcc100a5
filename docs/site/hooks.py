"""Hooks of mkdocs: the README is the site's first page, and links to files outside docs/ become their names.

A page links to files of the project, such as a test or a notebook, which the site does not have.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

PROJECT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\[([^]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the README as the page index.md, with its links as seen from docs/."""
    text = (PROJECT / "README.md").read_text()
    files.append(File.generated(config, "index.md", content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links to files outside docs/ by their text. A file that is nowhere stays a link, and fails the build."""
    is_first = page.file.src_uri == "index.md"
    here = PROJECT if is_first else (PROJECT / "docs" / page.file.src_uri).parent

    def replaced(link: re.Match[str]) -> str:
        inside = PROJECT / "docs" / link[2] if is_first else here / link[2]
        if inside.resolve().is_relative_to(PROJECT / "docs") and inside.is_file():
            return link[0]
        return f"{link[1]} (`{link[2].lstrip('./')}`)" if (here / link[2]).exists() else link[0]

    return _LINK.sub(replaced, markdown)
