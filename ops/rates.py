"""How fast queues fill and drain, by two looks at the gauges."""

from __future__ import annotations

from typing import Any

from penstock.limits.watermarks import Marks
from penstock.memory.gauges import QueueGauge

Facts = dict[str, Any]


def rates(earlier: QueueGauge, now: QueueGauge, seconds: float) -> Facts:
    """Of one queue: messages a second that came and that left, and seconds until it is full and until it is free.

    `full_in` is None where nobody is stopped or it does not grow, `resumes_in` where it is not saturated or does not
    shrink. The time until it is free is what its producers take to be let go, so what comes meanwhile is not counted.
    """
    count, before = now.ready + now.unacked, earlier.ready + earlier.unacked
    came = (now.published - earlier.published) / seconds
    left = came - (count - before) / seconds
    return {
        "published_per_second": round(came, 1),
        "drained_per_second": round(left, 1),
        "full_in": None if now.saturated else _seconds(marks_of(now).missing(count, now.whole_bytes), came - left),
        "resumes_in": _seconds(marks_of(now).excess(count, now.whole_bytes), left),
    }


def _seconds(messages: float | None, rate: float) -> float | None:
    return None if messages is None or rate <= 0 else round(messages / rate, 1)


def marks_of(queue: QueueGauge) -> Marks:
    return Marks(queue.stop_count, queue.resume_count, queue.stop_bytes, queue.resume_bytes)
