"""Rates of counts, from the times at which they were asked for."""

from __future__ import annotations

import pytest

from console import count_rates
from console.count_rates import AWAKE_SECONDS, CountRates


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rates(clock: Clock) -> CountRates:
    return CountRates(clock)


def test_a_rate_is_the_growth_since_the_ask_before(clock: Clock, rates: CountRates) -> None:
    assert rates.rates("channel", "a", {"publish": 10, "ack": 0}) == {"publish": 0.0, "ack": 0.0}
    clock.now += 4
    assert rates.rates("channel", "a", {"publish": 30, "ack": 2}) == {"publish": 5.0, "ack": 0.5}
    clock.now += 2
    assert rates.rates("channel", "a", {"publish": 30, "ack": 3}) == {"publish": 0.0, "ack": 0.5}
    assert rates.rates("connection", "a", {"publish": 30}) == {"publish": 0.0}


def test_asks_at_the_same_time_find_the_same_rate(clock: Clock, rates: CountRates) -> None:
    rates.rates("channel", "a", {"publish": 0})
    clock.now += 5
    assert [rates.rates("channel", "a", {"publish": 10})["publish"] for _ in range(3)] == [2.0] * 3
    clock.now += 0.5
    assert rates.rates("channel", "a", {"publish": 22})["publish"] == 4.0


def test_a_count_that_began_anew_has_no_negative_rate(clock: Clock, rates: CountRates) -> None:
    rates.rates("node", "", {"publish": 10})
    clock.now += 1
    assert rates.rates("node", "", {"publish": 3}) == {"publish": 0.0}
    assert CountRates(clock).rates("node", "", {"publish": 3}) == {"publish": 0.0}


def test_what_is_gone_is_forgotten(clock: Clock, rates: CountRates) -> None:
    for id in "ab":
        rates.rates("channel", id, {"publish": 0})
    rates.keep("channel", ["a"])
    rates.keep("connection", [])
    clock.now += 1
    assert [rates.rates("channel", id, {"publish": 1})["publish"] for id in "ab"] == [1.0, 0.0]


def test_no_more_are_kept_than_a_bound(clock: Clock, rates: CountRates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_rates, "KEPT", 2)
    for id in "abc":
        rates.rates("channel", id, {"publish": 0})
    clock.now += 1
    assert [rates.rates("channel", id, {"publish": 1})["publish"] for id in "abc"] == [1.0, 1.0, 0.0]


def test_all_is_forgotten_once_nobody_asks(clock: Clock, rates: CountRates) -> None:
    rates.rates("channel", "a", {"publish": 0})
    clock.now += AWAKE_SECONDS
    rates.tick()
    assert rates.rates("channel", "a", {"publish": 300})["publish"] == 1.0
    clock.now += AWAKE_SECONDS + 1
    rates.tick()
    assert rates.rates("channel", "a", {"publish": 600})["publish"] == 0.0
