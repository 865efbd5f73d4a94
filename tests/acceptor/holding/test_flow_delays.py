"""The histograms of delays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acceptor.holding.flow_delays import Delays, FlowDelays
from penstock.memory.records import DELAY_BOUNDS_US


@given(st.lists(st.integers(-5, 10_000_000)))
def test_each_delay_is_in_its_bucket(delays: list[int]) -> None:
    found = Delays()
    for delay in delays:
        found.add(delay)
    *counts, sum_us = found.words()
    for at, bound in enumerate(DELAY_BOUNDS_US):
        assert sum(counts[: at + 1]) == sum(delay <= bound for delay in delays)
    assert sum(counts) == len(delays)
    assert sum_us == sum(max(delay, 0) for delay in delays)


def test_stops_and_resumes_are_apart() -> None:
    found = FlowDelays(lambda: 1_000)
    found.measure(True, 910)
    found.measure(False, 800)
    assert (found.stop.counts[0], found.resume.counts[1]) == (1, 1)
    assert sum(found.stop.counts) == sum(found.resume.counts) == 1
