"""Answers as tables of texts."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.telemetry.schema import Column
from pipeline.report.contents import Answer, Row
from pipeline.report.formats import cell, is_number, unit

ROWS_SHOWN = 20
HIDDEN = ("epoch",)
"""Columns that only programs need."""
IN_FULL = ("what_if",)
"""Answers with all their rows that say something: every recommended mark has its before and after."""
IDLE = {
    "hot_shards": ("load", "p95_load", "held_ms", "late_slots"),
    "rebalance_inputs": ("p95_rate", "backlog", "stopped_share"),
    "what_if": ("stopped_ms", "was_stopped_ms"),
    "disobedience": ("after_stop",),
}
"""Columns that are 0 in rows which say nothing; these are summed up in one line."""
WITHOUT = {
    "hot_shards": "without load",
    "rebalance_inputs": "without load and messages",
    "what_if": "that held nobody, and would not have",
    "disobedience": "that published nothing after a stop",
}


@dataclass(frozen=True, slots=True)
class Heading:
    """The head of a column."""

    name: str
    unit: str
    meaning: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns, the cells of its rows, and lines that say which rows are not in it."""

    columns: list[Heading]
    rows: list[list[str]]
    notes: list[str]


def table(answer: Answer, with_node: bool) -> Table:
    """Return the rows of an answer that say something, the first `ROWS_SHOWN`."""
    name = answer.table.name
    busy = [row for row in answer.rows if not _is_idle(name, row)]
    shown = busy if name in IN_FULL else busy[:ROWS_SHOWN]
    notes = _notes(answer, len(shown), len(busy))
    columns = [
        column for column in answer.table.columns if column.name not in HIDDEN and (with_node or column.name != "node")
    ]
    if empty := [column for column in columns if all(_is_empty(column, row) for row in shown)] if shown else []:
        notes.append(f"Columns without values are left out: {', '.join(_heading(column).name for column in empty)}.")
    filled = [column for column in columns if column not in empty]
    cells = [[cell(column, row[column.name]) for column in filled] for row in shown]
    return Table([_heading(column) for column in filled], cells, notes)


def _notes(answer: Answer, shown: int, busy: int) -> list[str]:
    idle, more = len(answer.rows) - busy, "more than " if answer.more else ""
    notes = []
    if shown < busy or (answer.more and not idle):
        notes.append(f"The first {shown:,} of {more}{busy:,} rows; the JSON report has up to {len(answer.rows):,}.")
    if idle:
        others = ("other " if idle == 1 and not more else "others ") if shown else ""
        notes.append(f"{'And' if shown else 'Only'} {more}{idle:,} {others}{WITHOUT[answer.table.name]}.")
    return notes


def _is_idle(name: str, row: Row) -> bool:
    return name in IDLE and not any(row[column] for column in IDLE[name])


def _is_empty(column: Column, row: Row) -> bool:
    """Return whether a cell says nothing: it is null, or 0 bytes, as marks that a queue does not have."""
    value = row[column.name]
    return value is None or (column.unit.startswith("bytes") and not value)


def _heading(column: Column) -> Heading:
    name = column.name.removesuffix("_ms").removesuffix("_us").replace("_", " ")
    return Heading(name, unit(column), column.meaning, is_number(column))
