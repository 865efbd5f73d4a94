"""The navigation of the site, read from docs/README.md: parts, groups and pages, with their titles."""

from __future__ import annotations

import re

Entry = dict[str, "str | list[Entry]"]
"""A title, with the page that has it, or with the entries below it."""

STEP = re.compile(
    r"^(?P<level>##|###) (?P<title>.+)$|^(?:-|\d+\.) \[(?P<words>[^\]]+)\]\((?P<page>[^)#]+)\)", re.MULTILINE
)


def navigation(index: str) -> list[Entry]:
    """Return the entries of an index: a heading of the second level begins a part, one of the third a group of it, and
    an item of a list that begins with a link is a page. Pages are named relative to the index.
    """
    parts: list[Entry] = []
    entries = parts
    for step in STEP.finditer(index):
        if step["page"]:
            entries.append({" ".join(step["words"].split()): step["page"]})
            continue
        below: list[Entry] = []
        if step["level"] == "##":
            parts.append({step["title"]: below})
            part = below
        else:
            part.append({step["title"]: below})
        entries = below
    return parts
