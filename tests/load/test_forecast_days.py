"""Days of queues for the back-test: whole rows, one a step, of queues that differ by kind and are always the same."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
import zstandard

from load.forecast_days import DAY, KINDS, STEPS, named, queue, write
from penstock.telemetry.schema import TABLES


@pytest.mark.parametrize("kind", KINDS)
def test_a_day_of_each_kind(kind: str) -> None:
    day = list(queue(random.Random(7), kind))
    assert day == list(queue(random.Random(7), kind))
    assert len(day) == STEPS
    assert all(depth >= 0 for depth, _ in day)
    assert len({stop for _, stop in day}) == 1


def test_batches_drain_a_queue_again_and_again() -> None:
    depths = [depth for depth, _ in queue(random.Random(7), "batches")]
    assert sum(before > 100 and after == 0 for before, after in pairwise(depths)) > 10


def test_rows_have_every_column_and_lie_in_their_hours(tmp_path: Path) -> None:
    rows = list(named(iter([(5, 100), (101, 100)]), "leak", 3))
    write(tmp_path, 0, rows)
    (path,) = tmp_path.glob("depth/v=1/dt=2026-11-20/hour=0/*.zst")
    found = [orjson.loads(line) for line in zstandard.decompress(path.read_bytes()).splitlines()]
    assert found == rows
    needed = {column.name for column in TABLES["depth"].columns if not column.nullable}
    assert all(needed <= {name for name, value in row.items() if value is not None} for row in found)
    assert [(row["queue"], row["ready"], row["saturated"]) for row in found] == [
        ("leak.3", 5, False), ("leak.3", 101, True)
    ]  # fmt: skip
    assert all(row["ts"] >= DAY for row in found)
