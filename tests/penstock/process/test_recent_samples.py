"""Percentiles of recent samples, and the lag of a loop that is kept busy."""

from __future__ import annotations

import asyncio
import time

from hypothesis import given
from hypothesis import strategies as st

from penstock.process.recent_samples import MEASURE_SECONDS, MOST, LoopLag, RecentSamples


@given(numbers=st.lists(st.integers(0, 10**9), max_size=2 * MOST), percent=st.integers(1, 100))
def test_a_percentile_has_so_many_percent_not_above_it(numbers: list[int], percent: int) -> None:
    samples = RecentSamples()
    for number in numbers:
        samples.add(number)
    last = numbers[-MOST:]
    found = samples.percentile(percent)
    if not last:
        assert found == 0
        return
    assert found in last
    assert 100 * sum(number <= found for number in last) >= percent * len(last)
    smaller = [number for number in last if number < found]
    assert 100 * len(smaller) < percent * len(last)


def test_a_loop_that_is_kept_busy_lags() -> None:
    busy = 0.5

    async def run() -> int:
        lag = LoopLag(asyncio.get_running_loop())
        asyncio.get_running_loop().call_soon(time.sleep, busy)
        await asyncio.sleep(2 * MEASURE_SECONDS)  # due after the measurement
        return lag.samples.percentile(99)

    assert asyncio.run(run()) >= (busy - 0.1) * 1e6
