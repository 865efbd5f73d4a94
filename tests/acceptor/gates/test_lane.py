"""The terms of a priority lane: how far below the end of its reserve a queue is, and which queues have one."""

from __future__ import annotations

import pytest

from acceptor.gates.gate import UNLIMITED
from acceptor.gates.lane import Lane, lane_of
from penstock.limits.features import LANE_RESERVE, QueueFeatures, QueueLane
from penstock.limits.watermarks import Marks

LANE = Lane(5, "", 10)
BOTH = Marks(160, 100, 16_000, 10_000)


@pytest.mark.parametrize(
    ("marks", "paced_to", "depth", "left"),
    [
        (Marks(160, 100), None, 160, 20),  # a mark, its overshoot of a sixteenth, and the reserve
        (Marks(160, 100), None, 185, -5),
        (Marks(160, 100), 40, 30, 20),  # paced below the mark
        (Marks(160, 100), 400, 160, 20),  # paced above it
        (Marks(), 40, 30, 20),
        (Marks(), 0, 3, 7),
        (Marks(), None, 3, UNLIMITED),
        (Marks(0, 0, 16_000, 10_000), None, 3, UNLIMITED),
    ],
)
def test_the_reserve_in_messages_begins_above_the_overshoot_of_the_lower_target(
    marks: Marks, paced_to: int | None, depth: int, left: int
) -> None:
    assert LANE.room(marks, depth, 0, paced_to)[0] == left


def test_the_reserve_in_bytes_is_that_of_the_mark_in_bytes() -> None:
    most = BOTH.stop_bytes + BOTH.overshoot_bytes + BOTH.reserve_bytes
    assert LANE.room(BOTH, 0, 16_000, None)[1] == most - 16_000 > BOTH.reserve_bytes
    assert LANE.room(BOTH, 0, most + 1, None)[1] == -1
    assert LANE.room(Marks(160, 100), 0, 1 << 40, None)[1] == UNLIMITED


@pytest.mark.parametrize(
    ("features", "lane"),
    [
        (QueueFeatures(), None),
        (QueueFeatures(lane=QueueLane(reserve=7)), None),
        (QueueFeatures(lane=QueueLane(priority=0)), Lane(0, "", LANE_RESERVE)),
        (QueueFeatures(lane=QueueLane(priority=5, reserve=7)), Lane(5, "", 7)),
        (QueueFeatures(lane=QueueLane(key="control.#")), Lane(None, "control.#", LANE_RESERVE)),
    ],
)
def test_a_queue_has_a_lane_if_it_says_which_messages_may_pass(features: QueueFeatures, lane: Lane | None) -> None:
    assert lane_of(features) == lane
