"""The contents of a report, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.telemetry.schema import Table

Row = dict[str, Any]

UNKNOWN = "(unknown)"
"""The product of clients that name none, as in `pipeline.jobs.held`."""
POINTS = 240
"""Slots of a curve, each an equal part of the range."""


@dataclass(slots=True)
class Answer:
    """The first rows of a job's answer; `more` says whether there were more."""

    table: Table
    rows: list[Row]
    more: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Depth of a queue over time: the greatest of each slot, in messages, with its marks (0: none)."""

    node: str
    vhost: str
    queue: str
    points: list[tuple[int, int]]
    stop_count: int
    resume_count: int


@dataclass(slots=True)
class Report:
    """The contents of the report. `counts`: rows, corrupt rows and rows that writers dropped, by table; `unreadable`:
    names of the files that were left out, by table; `load_slot_us`: length of the slots in `shard_load`;
    `is_summarized`: queues are known by summaries of hours and days, so percentiles are those of rounded values.
    """

    root: str
    since: int
    until: int
    load_slot_us: int
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    unreadable: dict[str, list[str]] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    is_summarized: bool = False

    def rows(self, name: str) -> list[Row]:
        """Return the rows of an answer."""
        return self.answers[name].rows

    def nodes(self) -> list[str]:
        """Return the nodes that the answers name."""
        return sorted({row["node"] for answer in self.answers.values() for row in answer.rows})
