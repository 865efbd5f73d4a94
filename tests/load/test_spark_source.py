"""The verdict on a query's outcome, and queries that do not end as they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from load import spark_query
from load.node import LocalNode
from load.spark_source import Outcome, Progress, answer, fill, sound, watch


def outcome(lost: int = 0, twice: int = 0, left: int = 0) -> Outcome:
    return Outcome(count=1000, kills=2, lost=lost, twice=twice, left=left, processed=900, seconds=2.0)


@pytest.mark.parametrize(
    ("found", "leases", "expected"),
    [
        (outcome(), 0, True),
        (outcome(), 2, True),
        (outcome(twice=200), 0, True),
        (outcome(twice=201), 0, False),
        (outcome(twice=1), 2, False),
        (outcome(lost=1), 0, False),
        (outcome(left=1), 2, False),
    ],
)
def test_a_batch_may_come_twice_for_each_kill_but_with_leases(found: Outcome, leases: int, expected: bool) -> None:
    assert sound(found, leases, rows=100) is expected


def test_the_rate_is_that_of_the_time_in_which_something_moved() -> None:
    assert outcome().rate == 450.0
    assert Outcome(0, 0, 0, 0, 0, 0, 0.0).rate == 0.0


def test_a_service_is_called_for_each_thousand_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(spark_query.time, "sleep", slept.append)
    batches = [pa.RecordBatch.from_pydict({"n": range(first, last)}) for first, last in ((0, 2500), (2500, 3500))]
    found = list(spark_query.serviced(0.1, batches))
    assert [batch.num_rows for batch in found] == [1000, 1000, 500, 1000]
    assert [number for batch in found for number in batch.column("n").to_pylist()] == list(range(3500))
    assert slept == [0.1] * 4


def ended(directory: Path, code: str) -> subprocess.Popen[bytes]:
    """Return the process of a query that has ended."""
    with (directory / "query.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=log)
    process.wait()
    return process


@pytest.mark.broker
def test_a_query_that_is_over_too_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    with LocalNode(tmp_path) as node:
        fill(node, "q", 2500)
        progress = Progress(node, "q")
        assert progress.poll() == 2500
        process = ended(tmp_path, "raise SystemExit('no Java')")
        with pytest.raises(RuntimeError, match="2500 messages are left, not 100:\nno Java"):
            watch(process, tmp_path, progress, 100)
    with pytest.raises(RuntimeError, match="no Java"):
        answer(process, tmp_path)


def test_the_answer_of_a_query_is_its_line_of_json(tmp_path: Path) -> None:
    assert answer(ended(tmp_path, "print('{\"rows\": 5}')"), tmp_path) == {"rows": 5}
    assert answer(ended(tmp_path, ""), tmp_path) == {}
