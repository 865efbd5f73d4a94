"""Files of rows and of plans, and what is said of those that are none."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ops.errors import CommandError
from ops.rebalance.files import plan_text, read_plan, read_rows
from ops.rebalance.making import make_plan
from ops.rebalance.rows import COLUMNS, digest, rows_of
from tests.ops.rebalance.synthetic import RULES, one_hot, row, world

ROWS = [row("a", 0, 10.0, 5), row("b", 1, 0.5)]
RECORDS = [asdict(each) for each in ROWS]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(RECORDS),
        json.dumps({"version": 1, "queues": RECORDS}, indent=1),
        json.dumps({"queues": RECORDS}),
        "\n".join(map(json.dumps, RECORDS)) + "\n",
    ],
    ids=["array", "object", "object in a line", "lines"],
)
def test_rows_of_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "inputs.json"
    path.write_text(text)
    assert read_rows(path) == ROWS


def test_rows_of_files_that_spark_wrote(tmp_path: Path) -> None:
    for number, record in enumerate(RECORDS):
        (tmp_path / f"part-{number}.json").write_text(json.dumps(record) + "\n")
    (tmp_path / "_SUCCESS").touch()
    assert read_rows(tmp_path) == ROWS


def test_rows_of_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "inputs").mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(RECORDS), tmp_path / "inputs" / "part-0.parquet")
    assert read_rows(tmp_path / "inputs") == ROWS


def test_the_pipeline_writes_all_columns() -> None:
    pytest.importorskip("pyspark")
    from pipeline.jobs.rebalance_inputs import TABLE

    assert set(COLUMNS) <= {column.name for column in TABLE.columns}


def record(**changed: Any) -> dict[str, Any]:
    return {**RECORDS[0], **changed}


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ([{"vhost": "/", "queue": "q"}], "row 1: shard, p50_rate, p95_rate, "),
        ([record(), record()], "row 2: queue 'a' in vhost '/' is there twice"),
        ([record(p95_rate=float("nan"))], "row 1: p95_rate is nan, not a number from 0 on"),
        ([record(p95_rate=-1)], "row 1: p95_rate is -1, not a number"),
        ([record(backlog=None)], "row 1: backlog is None, not a number"),
        ([record(backlog=0.5)], "row 1: backlog is 0.5, not a whole number"),
        ([record(coverage=1.5)], "row 1: coverage is 1.5, not a share from 0 to 1"),
        ([record(queue=7)], "row 1: queue is not a string"),
        ([record(shard=True)], "row 1: shard is True"),
        ([7], "row 1 is not an object"),
    ],
)
def test_rows_that_are_none(tmp_path: Path, records: list[Any], problem: str) -> None:
    path = tmp_path / "inputs.json"
    path.write_text(json.dumps(records))
    with pytest.raises(CommandError) as refused:
        read_rows(path)
    assert str(refused.value).startswith(f"{path}: {problem}")


@pytest.mark.parametrize("text", ["", "{", "7", '{"queues": 1}', "[" * 100_000, '{"a":' * 100_000, "\x00"])
def test_files_that_hold_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "inputs.json"
    path.write_text(text)
    with pytest.raises(CommandError):
        read_rows(path)
    with pytest.raises(CommandError):
        read_plan(path)
    with pytest.raises(CommandError, match=r"cannot read .*: No such file or directory"):
        read_rows(tmp_path / "none")


def test_the_digest_is_of_the_rows_not_of_their_order() -> None:
    assert digest(ROWS) == digest(list(reversed(ROWS)))
    assert digest(ROWS) != digest([ROWS[0], row("b", 1, 0.6)])
    assert rows_of(reversed(RECORDS)) == ROWS


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = one_hot(1)
    plan = make_plan(rows, world(rows, 8), RULES, source="test", now=1e9, lasts=60)
    path = tmp_path / "plan.json"
    path.write_text(plan_text(plan))
    assert read_plan(path) == plan
    path.write_text(plan_text(plan).replace('"format": 1', '"format": 2'))
    with pytest.raises(CommandError, match="the plan is of format 2, this penstock knows 1"):
        read_plan(path)
    path.write_text(plan_text(plan).replace('"queue_id"', '"other"'))
    with pytest.raises(CommandError, match="not a plan: KeyError at 'queue_id'"):
        read_plan(path)
