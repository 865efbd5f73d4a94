"""What commands print: tables that cut no name, on a terminal of any width, in a pipe or in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

UNBOUNDED = 100_000
"""The width of output that is not for a terminal: a line is as long as it needs to be."""
TEXT_LEAST = 16
"""The room that a column of a list needs at least, in cells, if its texts are longer."""
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


def captured(show: Callable[[Output], None]) -> str:
    """Return what `show` prints on a console for standard output."""
    console = output()
    with console.capture() as capture:
        show(console)
    return capture.get()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, with how its cells are written. Those of the lowest `rank` are shown at any width, and their
    cells may take several lines; the others are left out where they have no room, the last of the highest first. A cell
    needs room for `least` cells of the terminal, if it is longer, and then takes several lines.
    """

    title: str
    cell: Callable[[Any], str]
    rank: int = 0
    right: bool = True
    least: int = UNBOUNDED


def fitted(title: str, columns: Sequence[Column], rows: Sequence[Any], width: int) -> Table:
    """Return a table of the columns for which a line has room, in cells; the caption says how many are left out."""
    cells = {column.title: [column.cell(row) for row in rows] for column in columns}
    widths = {
        column.title: min(max(map(_width, (column.title, *cells[column.title]))), column.least) + BORDERS
        for column in columns
    }
    shown = list(columns)
    while sum(widths[column.title] for column in shown) >= width:
        last = max(shown, key=lambda column: (column.rank, columns.index(column)))
        if not last.rank:
            break
        shown.remove(last)
    table = Table(title=title or None, title_justify="left", caption_justify="left")
    if left := len(columns) - len(shown):
        table.caption = f"{left} more columns on a wider terminal, or in a pipe"
    for column in shown:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for at in range(len(rows)):
        table.add_row(*(cells[column.title][at] for column in shown))
    return table


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], kept: Sequence[str] = ()) -> None:
    """Print a table of plain texts. Where a line has no room for all columns the last are left out, but not the first
    one, nor those that are `kept`.
    """
    console = output()
    shown = [
        Column(
            name.replace("_", " "), partial(_cell, at), 1 if at and name not in kept else 0, right=False,
            least=TEXT_LEAST,
        )
        for at, name in enumerate(columns)
    ]  # fmt: skip
    console.print(fitted("", shown, rows, console.width))


def _cell(at: int, row: Sequence[str]) -> str:
    return escape(row[at])


def _width(cell: str) -> int:
    """Return the cells that a cell takes on one line; its markup takes none."""
    return cell_len(Text.from_markup(cell).plain)
