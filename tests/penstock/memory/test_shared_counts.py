"""Counts that acceptors share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.memory import shared_rows
from penstock.memory.shared_counts import SharedCounts, content, create
from penstock.memory.shared_rows import SharedRows, Use, row_name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "counts"
    create(path, 3)
    assert path.stat().st_mode & 0o777 == 0o600
    return path


def test_a_limit_is_that_of_all(path: Path) -> None:
    one, two = SharedCounts.open(path, 3, 0), SharedCounts.open(path, 3, 1)
    assert one.acquire("a", 0, 3) and two.acquire("a", 0, 3) and one.acquire("a", 1, 3)
    assert not one.acquire("a", 2, 3) and not two.acquire("a", 1, 3)
    assert two.acquire("b", 0, 1) and not one.acquire("b", 0, 1)
    two.put("a", 0, 3)
    assert one.total("a") == 2 and two.acquire("a", 0, 3)


def test_what_an_earlier_life_has_counted_is_forgotten(path: Path) -> None:
    one, two = SharedCounts.open(path, 3, 0), SharedCounts.open(path, 3, 1)
    assert one.acquire("a", 0, 2) and two.acquire("a", 0, 2)
    again = SharedCounts.open(path, 3, 0)
    assert again.total("a") == 1
    assert again.acquire("a", 0, 2) and not again.acquire("a", 1, 2)


def test_rows_of_nothing_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_rows, "SETS", 1)
    counts = SharedCounts.of_process()
    names = [str(number) for number in range(shared_rows.WAYS)]
    assert all(counts.acquire(name, 0, 1) for name in names)
    assert counts.acquire("further", 0, 1) and not counts.acquire("further", 1, 1)
    counts.put(names[0], 0, 1)
    assert counts.acquire("another", 0, 1)
    assert counts.total("another") == counts.total(names[1]) == 1 and counts.total(names[0]) == 0


def test_limits_that_are_near(path: Path) -> None:
    one, two = SharedCounts.open(path, 3, 0), SharedCounts.open(path, 3, 1)
    full, some, user = (row_name("max-x", *whose) for whose in (("node", ""), ("vhost", "/"), ("user", "a b \udcff")))
    for own in range(9):
        assert one.acquire(full, own, 8, beyond=2) and one.acquire(some, own, 11)
    two.put(user, 10, 11)
    assert set(two.near()) == {Use("max-x", "node", "", 9, 8), Use("max-x", "user", "a b \udcff", 10, 11)}
    assert two.acquire(some, 0, 11)
    two.put(user, 10, None)
    one.put(full, 0, 8)
    assert set(two.near()) == {Use("max-x", "vhost", "/", 10, 11)}
    two.put(some, 1, 100)
    assert not list(one.near())


def test_a_name_that_is_too_long_is_counted_and_not_told(path: Path) -> None:
    one = SharedCounts.open(path, 3, 0)
    long, other = (row_name("max-x", "user", "u" * 300 + end) for end in "ab")
    assert one.acquire(long, 0, 1) and one.acquire(other, 0, 1) and not one.acquire(long, 1, 1)
    assert not list(one.near())


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.booleans()), max_size=60))
def test_it_counts_as_a_table_does(steps: list[tuple[int, str, bool]]) -> None:
    rows = SharedRows.of_process(content(2))
    acceptors = [SharedCounts(rows, 2, index) for index in range(2)]
    table = {(index, name): 0 for index in range(2) for name in "abc"}
    for index, name, more in steps:
        own, total = table[index, name], table[0, name] + table[1, name]
        if more:
            assert acceptors[index].acquire(name, own, 3) == (total < 3)
            table[index, name] += total < 3
        elif own:
            table[index, name] -= 1
            acceptors[index].put(name, own - 1, 3)
        assert acceptors[0].total(name) == table[0, name] + table[1, name]
