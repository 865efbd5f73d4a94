"""Links between pages and files of the repository: where they lead on the site.

The site has the pages of docs/ at its root, and below `repository/` each other file that a page links to: pages as they
are, other files as a page that shows them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BESIDE = "repository"

CODE_OR_LINK = re.compile(
    r"^ *```.*?^ *```$|`[^`]*`|\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)", re.MULTILINE | re.DOTALL
)


def linked_from(path: Path) -> Iterator[Path]:
    """Yield the files that a page links to."""
    for found in CODE_OR_LINK.finditer(path.read_text()):
        if found["target"]:
            yield (path.parent / found["target"]).resolve()


def files_beside() -> set[Path]:
    """Return the files outside docs/ that pages of the site link to."""
    found: set[Path] = set()
    pages = list(DOCS.rglob("*.md"))
    while pages:
        new = {path for path in linked_from(pages.pop()) if not path.is_relative_to(DOCS)} - found
        pages += [path for path in new if path.suffix == ".md"]
        found |= new
    return found


def page_of(path: Path) -> str:
    """Return the page of the site, relative to its root, that has or shows a file. Pictures stay files."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    page = f"{BESIDE}/{path.relative_to(ROOT).as_posix()}"
    return page if page.endswith(".md") else f"{page}.md"


def converted(text: str, path: Path) -> str:
    """Return the text of a page at `path` with its links as the site needs them. In code in a table GitHub takes the
    backslash from a bar, Python-Markdown keeps it: it is left out.
    """
    here = PurePosixPath(page_of(path)).parent

    def link(found: re.Match[str]) -> str:
        if not found["target"]:
            return found[0].replace("\\|", "|") if text[text.rfind("\n", 0, found.start()) + 1] == "|" else found[0]
        page = page_of((path.parent / found["target"]).resolve())
        return f"]({os.path.relpath(page, here)}{found['anchor'] or ''})"

    return CODE_OR_LINK.sub(link, text)


def shown(path: Path) -> str:
    """Return a page that shows a file which is no page."""
    language = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".toml": "toml"}.get(
        path.suffix, "text"
    )
    return (
        f"---\nsearch:\n  exclude: true\n---\n\n# {path.relative_to(ROOT)}\n\n````{language}\n{path.read_text()}````\n"
    )
