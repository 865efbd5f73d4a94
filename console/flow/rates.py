"""The rates at which queues fill and drain, from two readings of the gauges."""

from __future__ import annotations

from typing import Any

from penstock.limits.watermarks import Marks
from penstock.memory.gauges import QueueGauge

Facts = dict[str, Any]


def rates(earlier: QueueGauge, now: QueueGauge, seconds: float) -> Facts:
    """Return the rates of one queue in messages a second, and the seconds until it is full and until it resumes.

    `full_in` is None if the queue is saturated, has no marks or does not grow; `resumes_in` is None if nothing leaves
    it. `resumes_in` does not count publishes, as producers are held until then.
    """
    count, before = now.ready + now.unacked, earlier.ready + earlier.unacked
    came = (now.counters.published - earlier.counters.published) / seconds
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
    """Return the marks in a queue's gauge."""
    return Marks(*queue.marks)
