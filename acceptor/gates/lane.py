"""The terms of a priority lane: the messages that pass a stopped queue, its reserve (`acceptor.gates.lane_line`)."""

from __future__ import annotations

from typing import NamedTuple

from acceptor.gates.gate import UNLIMITED
from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import Marks


class Lane(NamedTuple):
    """The messages that may pass, by priority (None: none) or a pattern of routing keys ("": none), and how many beyond
    the mark.
    """

    priority: int | None
    key: str
    reserve: int

    def room(self, marks: Marks, depth: int, depth_bytes: int, paced_to: int | None) -> tuple[int, int]:
        """(messages, bytes) that a depth is below the end of the reserve."""
        stops = [marks.stop_count + marks.overshoot_count] if marks.stop_count else []
        stops += [paced_to] if paced_to is not None else []
        count = nbytes = UNLIMITED
        if stops:
            count = min(stops) + self.reserve - depth
        if marks.stop_bytes:
            nbytes = marks.stop_bytes + marks.overshoot_bytes + marks.reserve_bytes - depth_bytes
        return count, nbytes


def lane_of(features: QueueFeatures) -> Lane | None:
    """Return the priority lane that a queue's features ask for."""
    lane = features.lane
    return Lane(lane.priority, lane.key or "", features.reserve) if features.reserve else None
