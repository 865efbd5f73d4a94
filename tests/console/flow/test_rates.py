"""Fill and drain rates of queues."""

from __future__ import annotations

import pytest

from console.flow.rates import rates
from penstock.memory.gauges import QueueGauge
from tests.penstock.memory.gauges_file import reading

BY_COUNT = {"stop_count": 100, "resume_count": 50}
BY_BYTES = {"stop_bytes": 1000, "resume_bytes": 500}


def queue(depth: int, published: int, saturated: bool = False, marks: dict[str, int] = BY_COUNT) -> QueueGauge:
    return reading(ready=depth, whole_bytes=10 * depth, published=published, saturated=saturated, **marks)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (queue(0, 0), queue(20, 60), (30.0, 20.0, 8.0, 0.0)),
        (queue(60, 0), queue(40, 20), (10.0, 20.0, None, 0.0)),
        (queue(120, 9, True), queue(110, 9, True), (0.0, 5.0, None, 12.0)),
        (queue(120, 9, True), queue(120, 9, True), (0.0, 0.0, None, None)),
    ],
    ids=["fills", "drains", "saturated", "stuck"],
)
def test_by_two_looks(before: QueueGauge, after: QueueGauge, expected: tuple[float | None, ...]) -> None:
    facts = rates(before, after, 2.0)
    assert tuple(facts.values()) == expected


def test_by_bytes_in_messages_of_their_size() -> None:
    filling = rates(queue(0, 0, marks=BY_BYTES), queue(20, 20, marks=BY_BYTES), 1.0)
    assert filling["full_in"] == 4.0
    draining = rates(queue(90, 0, True, BY_BYTES), queue(80, 0, True, BY_BYTES), 1.0)
    assert draining["resumes_in"] == 3.0
