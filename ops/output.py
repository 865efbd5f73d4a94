"""What commands print: tables that cut no name, on a terminal of any width, in a pipe or in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

UNBOUNDED = 100_000
"""The width of output that is not for a terminal: a line is as long as it needs to be."""
BORDERS = 3
"""The cells that a column takes beside its contents: padding and a line."""


class Output(Console):
    """Standard output. Whoever reads it may stop, as `head` does: that is no error."""

    def on_broken_pipe(self) -> NoReturn:
        """Print nothing more, and exit as if all had been read."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


def output(**options: Any) -> Output:
    """Return a console for standard output."""
    return Output(width=None if sys.stdout.isatty() else UNBOUNDED, **options)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of plain texts."""
    table = Table()
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    output().print(table)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, with how its cells are written. Those of the lowest `rank` are shown at any width, and their
    cells may take several lines; the others are left out where they have no room.
    """

    title: str
    cell: Callable[[Mapping[str, Any]], str]
    rank: int = 0
    right: bool = True


def fitted(title: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    """Return a table of the columns for which a line has room, in cells; the caption says how many are left out."""
    cells = {column.title: [column.cell(row) for row in rows] for column in columns}
    widths = {column.title: max(map(_width, (column.title, *cells[column.title]))) + BORDERS for column in columns}
    shown = list(columns)
    while sum(widths[column.title] for column in shown) >= width:
        last = max(shown, key=lambda column: (column.rank, columns.index(column)))
        if not last.rank:
            break
        shown.remove(last)
    table = Table(title=title, title_justify="left", caption_justify="left")
    if left := len(columns) - len(shown):
        table.caption = f"{left} more columns on a wider terminal, or in a pipe"
    for column in shown:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for at in range(len(rows)):
        table.add_row(*(cells[column.title][at] for column in shown))
    return table


def _width(cell: str) -> int:
    """Return the cells that a cell takes on one line; its markup takes none."""
    return cell_len(Text.from_markup(cell).plain)
