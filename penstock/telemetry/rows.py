"""The destination of rows, as their producers see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from penstock.telemetry.schema import Table

Put: TypeAlias = Callable[[Table, int, dict[str, Any]], None]
"""Takes a row: its table, its time (microseconds since 1970), and its columns except the common ones."""


def nowhere(table: Table, ts: int, facts: dict[str, Any]) -> None:
    """Discard a row; for a node that records nothing."""
