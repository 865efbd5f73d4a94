"""The destinations of rows: one that discards them, and the writer's."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.telemetry.rows import Put, nowhere
from penstock.telemetry.schema import TABLES


@pytest.mark.parametrize("table", TABLES)
def test_a_row_put_nowhere_is_neither_checked_nor_changed(table: str) -> None:
    put: Put = nowhere
    facts: dict[str, Any] = {"depth": 5, "not": "a column"}
    put(TABLES[table], 1_700_000_000_000_000, facts)
    assert facts == {"depth": 5, "not": "a column"}
