from __future__ import annotations

import pytest

from load.counters import Stop, Tally
from load.figures import TITLES, Held, cells, row, rows, table


@pytest.fixture
def tally() -> Tally:
    tally = Tally()
    tally.published["Ignoring"].update({1: 5, 2: 6})
    tally.published["Obeying"].update({3: 7})
    tally.record_stop(Stop(1.0, 3.0, "FLOW", "Obeying", ("q",)))
    tally.record_stop(Stop(5.0, 5.5, "FLOW", "Obeying", ("q",)))
    tally.record_stop(Stop(1.0, 4.0, "BLOCKED", "Ignoring", ("q",)))
    tally.waits["Obeying"]["stopped"] += 2.5
    tally.waits["Ignoring"]["confirms"] += 1.5
    tally.waits["Ignoring"]["writing"] += 0.5
    return tally


def test_a_row_a_class_and_one_of_all(tally: Tally) -> None:
    assert list(rows(tally)) == [
        Held("Ignoring", 11, 0, 0.0, 1, 3.0, 3.0, 0.0, 1.5, 0.5),
        Held("Obeying", 7, 2, 2.5, 0, 0.0, 2.0, 2.5, 0.0, 0.0),
        Held("all", 18, 2, 2.5, 1, 3.0, 3.0, 2.5, 1.5, 0.5),
    ]


def test_reading_a_tally_adds_nothing_to_it(tally: Tally) -> None:
    before = tally.published.copy(), tally.waits.copy()
    row(tally, "all", ["Ignoring", "Obeying", "Nobody"])
    assert (tally.published, tally.waits) == before


def test_one_class_needs_no_sum() -> None:
    tally = Tally()
    assert list(rows(tally)) == []
    tally.published["Obeying"][1] += 1
    assert [row.user for row in rows(tally)] == ["Obeying"]


def test_the_table_of_a_terminal_is_aligned(tally: Tally) -> None:
    lines = table(list(rows(tally)))
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split("  ")[0] == "Publishers"
    assert len(cells(next(rows(tally)))) == len(TITLES)
