"""The rows of a plan: usable records, and a digest that depends on nothing but the rows."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.rebalance.rows import COLUMNS, QueueRow, RowError, digest, rows_of
from tests.ops.rebalance.synthetic import row

ROWS = [row("a", 0, 10.0, 5), row("b", 1, 0.5)]
RECORDS = [asdict(each) for each in ROWS]
names = st.text(st.characters(codec=None), max_size=5)


def record(**changed: Any) -> dict[str, Any]:
    return {**RECORDS[0], **changed}


@given(st.lists(st.tuples(names, names), unique=True, max_size=5), st.randoms())
def test_rows_are_read_in_order_of_vhost_and_queue_and_other_columns_are_ignored(
    keys: list[tuple[str, str]], chance: Any
) -> None:
    expected = [QueueRow(vhost, queue, *list(asdict(ROWS[0]).values())[2:]) for vhost, queue in sorted(keys)]
    records = [{**asdict(each), "of a newer penstock": None} for each in expected]
    chance.shuffle(records)
    assert rows_of(records) == expected
    assert digest(rows_of(records)) == digest(reversed(expected))


def test_numbers_get_the_type_of_their_column() -> None:
    (found,) = rows_of([record(p95_rate=3, backlog=4.0, shard=1.0)])
    assert [type(each) for each in (found.p95_rate, found.backlog, found.shard)] == [float, int, int]


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
def test_an_unusable_row_is_named(records: list[Any], problem: str) -> None:
    with pytest.raises(RowError) as refused:
        rows_of(records)
    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize("name", COLUMNS)
def test_the_digest_depends_on_every_column(name: str) -> None:
    value = getattr(ROWS[0], name)
    changed = replace(ROWS[0], **{name: f"{value}?" if isinstance(value, str) else value + 1})
    assert digest([changed, ROWS[1]]) != digest(ROWS)


def test_the_digest_is_of_the_rows_not_of_their_order() -> None:
    assert digest(ROWS) == digest(list(reversed(ROWS)))
    assert digest(ROWS) != digest([ROWS[0], row("b", 1, 0.6)])
    assert rows_of(reversed(RECORDS)) == ROWS


def test_the_pipeline_writes_all_columns() -> None:
    pytest.importorskip("pyspark")
    from pipeline.jobs.rebalance_inputs import TABLE

    assert set(COLUMNS) <= {column.name for column in TABLE.columns}
