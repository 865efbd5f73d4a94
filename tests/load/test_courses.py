"""The table of a client's figures within a course and without."""

from __future__ import annotations

from load.courses import heading, row

COLUMNS = {"rate": "messages/s", "pages": "pages/s"}


def test_a_row_has_the_medians_of_the_runs_and_nothing_where_nothing_was_measured() -> None:
    results = [{"without": {"rate": rate}, "listed": {"rate": rate, "pages": 2.0}} for rate in (1.0, 5.0, 3.0)]
    assert heading(COLUMNS).split() == ["messages/s", "pages/s"]
    assert row(COLUMNS, "A", "without", results).split() == ["A", "without", "3"]
    assert row(COLUMNS, "A", "listed", results).split() == ["A", "listed", "3", "2"]
    assert len(row(COLUMNS, "A", "without", results)) == len(heading(COLUMNS))
