"""The reported overshoot of a queue, and its bound."""

from __future__ import annotations

from console.flow.overshoot import overshoot
from tests.penstock.memory.gauges_file import reading


def test_a_lane_s_reserve_and_what_is_lent_are_in_the_bound() -> None:
    queue = reading(ready=100, unacked=8, stop_count=80, over_count=20, reserve=30, lent_count=1000)
    facts = overshoot(queue, acceptors=2)
    assert (facts["over_count"], facts["beyond_count"]) == (20, 28)
    assert facts["over_count_bound"] == 2 * 5 + 30 + 1000
    assert facts["over_bytes_bound"] == facts["beyond_bytes"] == 0


def test_a_queue_without_marks_is_above_none() -> None:
    assert not any(overshoot(reading(ready=100, reserve=30), acceptors=2).values())
