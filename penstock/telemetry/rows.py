"""Where a row goes, as whoever has one to tell sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from penstock.telemetry.schema import Table

Put: TypeAlias = Callable[[Table, int, dict[str, Any]], None]
"""Takes a row: its table, when it was (microseconds since 1970), and its columns but for the common ones."""


def nowhere(table: Table, ts: int, facts: dict[str, Any]) -> None:
    """Where rows go if nothing is written down."""
