"""The node's clock, the wall clock, and the conversion of moments between them; restarts are in `test_kept_clock`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.node import clock

HOUR = 3_600_000_000


@pytest.fixture(autouse=True)
def the_clock_before() -> Iterator[None]:
    before = clock.ahead_us()
    yield
    clock.adopt(before)


def between(before: int, moment: float, after: int) -> bool:
    return before <= moment <= after


def test_it_is_as_far_ahead_of_the_time_since_boot_as_the_node_says() -> None:
    clock.adopt(5 * HOUR)
    assert clock.ahead_us() == 5 * HOUR
    before = clock.boot_us()
    found = clock.now_us()
    assert between(before + 5 * HOUR, found, clock.boot_us() + 5 * HOUR)
    before = clock.now_us()
    assert between(before, clock.now() * 1e6 + 1, clock.now_us() + 1)


def test_the_clocks_of_a_machine_count_microseconds() -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    found = clock.boot_us() * 1000
    assert between(before - 1000, found, time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    before = time.time_ns()
    found = clock.wall_us() * 1000
    assert between(before - 1000, found, time.time_ns())


def follow_behind_the_wall(us: int) -> None:
    clock.adopt(clock.wall_us() - clock.boot_us() - us)


@pytest.mark.parametrize("us", [HOUR, -HOUR, 0])
def test_the_wall_clock_is_ahead_by_whole_hundredths_of_a_second(us: int) -> None:
    follow_behind_the_wall(us)
    ahead = clock.wall_ahead_us()
    assert ahead % 10_000 == 0 and abs(ahead - us) <= 10_000


def test_only_the_named_moments_of_a_record_are_converted() -> None:
    follow_behind_the_wall(HOUR)
    record: dict[str, Any] = {"since": 5.0, "until": None, "depth": 7.0, "queue": "q"}
    converted = clock.as_wall(record, "since", "until")
    assert converted["since"] == pytest.approx(3605.0, abs=0.01)
    assert (converted["until"], converted["depth"], converted["queue"]) == (None, 7.0, "q")
    assert record["since"] == 5.0, "the record itself stays"


def test_a_clock_that_is_handed_in_goes_by_its_own_time() -> None:
    handed = clock.Clock(lambda: 2_500_000, lambda: 2_500_000 + HOUR + 1)
    assert handed.now() == 2.5
    assert handed.wall_ahead_us() == HOUR
    assert handed.as_wall({"since": 5.0, "until": None}, "since", "until") == {"since": 3605.0, "until": None}


@given(st.integers(-(10**12), 10**12))
def test_the_loops_clock_was_0_when_its_beginning_says(ahead_us: int) -> None:
    clock.adopt(ahead_us)
    before = clock.now() - time.monotonic()
    began = clock.loop_began()
    assert before - 0.006 <= began <= clock.now() - time.monotonic() + 0.006
    assert began == round(began, 2)
