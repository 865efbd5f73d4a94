"""Synthetic telemetry: every required column of its tables, and consistent depths."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from load.telemetry_scale import DAY, MINUTES, make
from penstock.telemetry.layout import FileName
from penstock.telemetry.schema import TABLES

Row = dict[str, Any]
QUEUES = 1_000


def rows(root: Path, table: str) -> Iterator[Row]:
    for path in sorted(root.glob(f"{table}/v=1/dt=2025-11-20/hour=0/*")):
        assert FileName.parse(path.name)
        lines = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(path.read_bytes()))
        yield from map(orjson.loads, lines)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the first three minutes of a day with a row a minute of every queue; return its directory."""
    root = tmp_path_factory.mktemp("scale")
    make(root, QUEUES * MINUTES, QUEUES, minutes=3)
    return root


@pytest.mark.parametrize("table", ["depth", "flow", "shard", "connection"])
def test_rows_have_the_columns_of_their_table(root: Path, table: str) -> None:
    needed = {column.name for column in TABLES[table].columns if not column.nullable}
    known = {column.name for column in TABLES[table].columns}
    found = list(rows(root, table))
    assert all(needed - {"reason", "vhost"} <= row.keys() <= known for row in found)
    assert [row["seq"] for row in found] == list(range(1, len(found) + 1))


def test_depths_follow_from_counts(root: Path) -> None:
    depths: dict[str, int] = {}
    for row in rows(root, "depth"):
        expected = depths.get(row["queue"], 0) + row["n_published"] - row["n_acked"]
        assert row["ready"] == expected
        assert row["saturated"] == (0 < row["stop_count"] < row["ready"])
        depths[row["queue"]] = expected
    assert len(depths) == QUEUES
    assert any(depths.values())


def test_days_may_be_made_one_after_the_other(tmp_path: Path) -> None:
    make(tmp_path, QUEUES * MINUTES, QUEUES, minutes=2)
    make(tmp_path, QUEUES * MINUTES, QUEUES, minutes=4, first=2)
    for table in ("depth", "flow", "shard"):
        found = list(rows(tmp_path, table))
        assert len({row["seq"] for row in found}) == len(found)
        assert {row["ts"] // 60_000_000 for row in found} >= {DAY // 60_000_000 + minute for minute in range(4)}
