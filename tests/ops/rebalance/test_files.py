"""Files of rows and of plans, and the errors for files that are neither."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.rebalance.files import plan_text, read_plan, read_rows
from ops.rebalance.making import make_plan
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
    assert read_rows(path, "here") == ROWS


def test_of_rows_of_several_nodes_those_of_this_one_count(tmp_path: Path) -> None:
    path = tmp_path / "inputs.json"
    path.write_text(json.dumps([{**record, "node": node} for record in RECORDS for node in ("here", "there")]))
    assert read_rows(path, "here") == ROWS
    with pytest.raises(CommandError, match=r"its rows are of the nodes here, there, and none of this one, gone$"):
        read_rows(path, "gone")
    path.write_text(json.dumps([{**record, "node": "renamed"} for record in RECORDS]))
    assert read_rows(path, "here") == ROWS


def test_rows_of_files_that_spark_wrote(tmp_path: Path) -> None:
    for number, record in enumerate(RECORDS):
        (tmp_path / f"part-{number}.json").write_text(json.dumps(record) + "\n")
    (tmp_path / "_SUCCESS").touch()
    assert read_rows(tmp_path, "here") == ROWS


def test_rows_of_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "inputs").mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(RECORDS), tmp_path / "inputs" / "part-0.parquet")
    assert read_rows(tmp_path / "inputs", "here") == ROWS


def test_an_unusable_row_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "inputs.json"
    path.write_text(json.dumps([RECORDS[0], {**RECORDS[1], "shard": -1}]))
    with pytest.raises(CommandError, match=f"^{path}: row 2: shard is -1, not a number from 0 on$"):
        read_rows(path, "here")


@pytest.mark.parametrize("text", ["", "{", "7", '{"queues": 1}', "[" * 100_000, '{"a":' * 100_000, "\x00"])
def test_files_that_hold_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "inputs.json"
    path.write_text(text)
    with pytest.raises(CommandError):
        read_rows(path, "here")
    with pytest.raises(CommandError):
        read_plan(path)
    with pytest.raises(CommandError, match=r"cannot read .*: No such file or directory"):
        read_rows(tmp_path / "none", "here")


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
