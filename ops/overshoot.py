"""How far above its stop marks a queue is, was and may be, as commands show it."""

from __future__ import annotations

from ops.rates import marks_of
from penstock.memory.gauges import QueueGauge


def overshoot(queue: QueueGauge, acceptors: int) -> dict[str, int]:
    """In messages and in bytes: how far above its stop marks it was at most because of publishes that they hold, and
    may be, with the reserve of a priority lane and what it is lent in a deadlock (in bytes: there, and a message of
    each acceptor); and how far it is beyond them now, whoever published that.
    """
    count, octets = marks_of(queue).overshoot_bound(acceptors, queue.reserve)
    beyond = queue.ready + queue.unacked - queue.stop_count if queue.stop_count else 0
    beyond_bytes = queue.whole_bytes - queue.stop_bytes if queue.stop_bytes else 0
    return {
        "over_count": queue.over_count,
        "over_count_bound": count + queue.lent_count,
        "over_bytes": queue.over_bytes,
        "over_bytes_bound": octets + queue.lent_bytes,
        "beyond_count": max(beyond, 0),
        "beyond_bytes": max(beyond_bytes, 0),
    }
