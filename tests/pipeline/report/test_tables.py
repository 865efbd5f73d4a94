"""Tables: rows that say nothing are one line, columns that say nothing are left out."""

from __future__ import annotations

from pipeline.report.contents import Answer
from pipeline.report.tables import IDLE, ROWS_SHOWN, WITHOUT, Table, table
from tests.pipeline.report.reports import add, quiet, reported, trouble


def names(found: Table) -> list[str]:
    return [heading.name for heading in found.columns]


def test_rows_of_zeros_are_one_line() -> None:
    report = quiet()
    found = table(report.answers["hot_shards"], with_node=False)
    assert len(found.rows) == 5
    assert found.notes[0] == "And 3 others without load."
    found = table(report.answers["rebalance_inputs"], with_node=False)
    assert len(found.rows) == 10
    assert found.notes[0] == "And 20 others without load and messages."


def test_a_table_of_nothing_but_zeros_has_a_line_and_no_rows() -> None:
    report = reported(0)
    for _ in range(3):
        add(report, "hot_shards", node="n", shard=0)
    found = table(report.answers["hot_shards"], with_node=False)
    assert found.rows == [] and found.notes == ["Only 3 without load."]


def test_what_is_left_out_is_counted() -> None:
    answer = reported(40).answers["held"]
    assert table(answer, with_node=False).notes == [
        f"The first {ROWS_SHOWN} of more than 40 rows; the JSON report has up to 40."
    ]
    report = trouble()
    report.answers["disobedience"].more = True
    assert table(report.answers["disobedience"], with_node=False).notes == [
        "And more than 1 others that published nothing after a stop."
    ]


def test_all_recommended_marks_have_their_before_and_after() -> None:
    assert len(table(reported(40).answers["what_if"], with_node=False).rows) == 40


def test_columns_without_values_are_left_out_and_named() -> None:
    found = table(trouble().answers["marks"], with_node=False)
    assert "stop bytes" not in names(found) and "stop count" in names(found)
    (note,) = found.notes
    assert note.startswith("Columns without values are left out: stop bytes, resume bytes, ")
    assert all(len(row) == len(found.columns) for row in found.rows)


def test_the_node_is_a_column_where_there_are_several() -> None:
    answer = trouble().answers["held"]
    assert names(table(answer, with_node=True)) == ["node", *names(table(answer, with_node=False))]


def test_zeros_are_sought_in_columns_that_are_there() -> None:
    answers: dict[str, Answer] = reported(0).answers
    assert IDLE.keys() == WITHOUT.keys()
    for name, columns in IDLE.items():
        assert set(columns) <= {column.name for column in answers[name].table.columns}
