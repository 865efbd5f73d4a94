"""The overshoot of a queue above its stop marks, as commands show it."""

from __future__ import annotations

from console.flow.rates import marks_of
from penstock.memory.gauges import QueueGauge


def overshoot(queue: QueueGauge, acceptors: int) -> dict[str, int]:
    """Return a queue's overshoot of its stop marks, in messages and in bytes.

    `over_…` is the highest so far due to publishes that the marks hold. `over_…_bound` is its bound, with the reserve
    of a priority lane and the amount lent in a deadlock; in bytes, one message of each acceptor may come on top.
    `beyond_…` is the present excess, whichever publishes caused it.
    """
    marks = marks_of(queue)
    count, nbytes = marks.overshoot_bound(acceptors, queue.reserve)
    beyond = queue.ready + queue.unacked - marks.stop_count if marks.stop_count else 0
    beyond_bytes = queue.whole_bytes - marks.stop_bytes if marks.stop_bytes else 0
    return {
        "over_count": queue.over_count,
        "over_count_bound": count + queue.lent_count,
        "over_bytes": queue.over_bytes,
        "over_bytes_bound": nbytes + queue.lent_bytes,
        "beyond_count": max(beyond, 0),
        "beyond_bytes": max(beyond_bytes, 0),
    }
