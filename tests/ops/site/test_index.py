"""The navigation of the site: read from an index, and of docs/README.md complete."""

from __future__ import annotations

from collections.abc import Iterator

from ops.site.index import Entry, navigation
from ops.site.links import DOCS

INDEX = """# Title

[A link](before.md) in the text.

## One

- [First](first.md): as in [second](second.md#there),
  and `code`.

## Two

### Group

- [A title over
  two lines](third.md) of a page.
- not a page, see [first](first.md)

### Numbered

1. [Fourth](folder/fourth.md)
"""


def pages(entries: list[Entry]) -> Iterator[str]:
    for entry in entries:
        for below in entry.values():
            if isinstance(below, str):
                yield below
            else:
                yield from pages(below)


def test_parts_groups_and_pages_are_those_of_the_headings_and_lists() -> None:
    assert navigation(INDEX) == [
        {"One": [{"First": "first.md"}]},
        {
            "Two": [
                {"Group": [{"A title over two lines": "third.md"}]},
                {"Numbered": [{"Fourth": "folder/fourth.md"}]},
            ]
        },
    ]


def test_the_documentation_has_four_parts_with_each_page_once() -> None:
    entries = navigation((DOCS / "README.md").read_text())
    assert [title for entry in entries for title in entry] == ["First hour", "Tasks", "Reference", "Background"]
    inside = sorted(page for page in pages(entries) if not page.startswith("../"))
    assert inside == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.name != "README.md")


def test_no_two_entries_have_one_title() -> None:
    def titles(entries: list[Entry]) -> Iterator[str]:
        for entry in entries:
            for title, below in entry.items():
                if isinstance(below, str):
                    yield title
                else:
                    yield from titles(below)

    found = list(titles(navigation((DOCS / "README.md").read_text())))
    assert len(found) == len(set(found))
