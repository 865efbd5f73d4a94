"""Limits of rates over all processes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.memory import shared_rows
from penstock.memory.shared_rates import CONTENT, Rate, SharedRates, create
from penstock.memory.shared_rows import SharedRows, Use, row_name

STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["fast", "slow", "fast slow"]), st.integers(0, 700)), max_size=80
)


def rate(number: int, name: str = "", whose: str = "node") -> Rate:
    return Rate(row_name("connection-rate", whose, name), number)


def test_a_rate_is_that_of_all_processes(tmp_path: Path) -> None:
    create(tmp_path / "rates")
    assert (tmp_path / "rates").stat().st_mode & 0o777 == 0o600
    one, two = SharedRates.open(tmp_path / "rates"), SharedRates.open(tmp_path / "rates")
    assert [process.acquire([rate(3)], 50.0) for process in (one, two, one)] == [None] * 3
    assert one.acquire([rate(3)], 50.0) == two.acquire([rate(3)], 50.3) == rate(3)
    assert two.acquire([rate(3)], 50.34) is None and one.acquire([rate(3)], 50.34) == rate(3)
    assert all(one.acquire([rate(3)], 60.0) is None for _ in range(3)) and two.acquire([rate(3)], 60.0)


def test_all_or_nothing() -> None:
    rates = SharedRates.of_process()
    both = [rate(1, "a", "address"), rate(2)]
    assert rates.acquire(both, 1.0) is None
    assert rates.acquire(both, 1.0) == both[0]
    assert rates.acquire([rate(1, "b", "address"), rate(2)], 1.0) is None
    assert rates.acquire([rate(1, "c", "address"), rate(2)], 1.0) == rate(2)
    assert rates.acquire([rate(1, "c", "address")], 1.0) is None, "where one was refused nothing was taken"


def test_none_at_all() -> None:
    rates = SharedRates.of_process()
    assert rates.acquire([rate(5), rate(0, "a", "address")], 1.0) == rate(0, "a", "address")
    assert rates.acquire([rate(1)], 1.0) is None


def test_what_has_not_happened_for_a_second_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_rows, "SETS", 1)
    rates = SharedRates.of_process()
    names = [str(number) for number in range(shared_rows.WAYS)]
    for number, name in enumerate(names):
        assert rates.acquire([rate(1, name)], number / 100) is None
    assert rates.acquire([rate(1, "one more")], 0.5) is None, "the one that is full soonest has made way"
    assert rates.acquire([rate(1, "one more")], 0.5) and rates.acquire([rate(1, names[1])], 0.5)
    assert rates.acquire([rate(1, names[0])], 0.5) is None
    assert rates.acquire([rate(1, names[2])], 1.03) is None, "its second is over"


def test_limits_that_are_near() -> None:
    rates = SharedRates.of_process()
    for _ in range(9):
        assert rates.acquire([rate(10, "10.0.0.1", "address"), rate(11)], 7.0) is None
    assert list(rates.near({"address": 10, "node": 11}, 7.0)) == [Use("connection-rate", "address", "10.0.0.1", 9, 10)]
    assert not list(rates.near({"node": 11}, 7.0)) and not list(rates.near({"address": 10}, 7.5))


@given(STEPS)
def test_it_lets_in_as_a_bucket_of_tokens_does(steps: list[tuple[int, str, int]]) -> None:
    """Rates of 4 and 10 a second and steps of whole milliseconds make whole nanoseconds."""
    rows = SharedRows.of_process(CONTENT)
    processes = [SharedRates(rows) for _ in range(2)]
    numbers, now = {"fast": 10, "slow": 4}, 1000
    tokens: dict[str, int] = defaultdict(lambda: 1000)
    for process, names, later in steps:
        now += later
        wanted = names.split()
        for name, number in numbers.items():
            tokens[name] = min(tokens[name] + later * number, number * 1000) if name in tokens else number * 1000
        lacking = next((name for name in wanted if tokens[name] < 1000), None)
        rates = [rate(numbers[name], name) for name in wanted]
        found = processes[process].acquire(rates, now / 1000)
        assert found == (None if lacking is None else rate(numbers[lacking], lacking))
        for name in wanted if lacking is None else ():
            tokens[name] -= 1000
