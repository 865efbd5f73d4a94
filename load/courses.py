"""The table of a client's figures without and within a course, such as a storm, on each broker."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

Figures = Mapping[str, float]
"""The figures of one measurement, by name."""


def heading(columns: Mapping[str, str]) -> str:
    """Return the first line of the table; `columns` are its titles, by figure."""
    return "".join((" " * 12, *(title.rjust(12) for title in columns.values())))


def row(columns: Mapping[str, str], name: str, course: str, results: Sequence[Mapping[str, Figures]]) -> str:
    """Return a row of the table: the medians of the runs of a broker, within a course or without."""
    runs = [result[course] for result in results]
    cells = [f"{statistics.median(run[figure] for run in runs):.5g}" if figure in runs[0] else "" for figure in columns]
    return "".join((name.ljust(4), course.ljust(8), *(cell.rjust(12) for cell in cells)))
