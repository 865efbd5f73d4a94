"""How fast queues fill and drain, by two looks at the gauges."""

from __future__ import annotations

from typing import Any

from penstock.gauges import QueueGauge

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
        "full_in": None if now.saturated else _seconds(_below(now), came - left),
        "resumes_in": _seconds(_above(now), left),
    }


def _seconds(messages: float | None, rate: float) -> float | None:
    return None if messages is None or rate <= 0 else round(messages / rate, 1)


def _sizes(queue: QueueGauge) -> tuple[int, int, float]:
    """Messages, octets, and octets of a message."""
    count, octets = queue.ready + queue.unacked, queue.whole_bytes
    return count, octets, octets / count if count else 0.0


def _below(queue: QueueGauge) -> float | None:
    """Messages that are missing to a stop mark; None if there is none."""
    count, octets, size = _sizes(queue)
    missing = [float(queue.stop_count - count)] if queue.stop_count else []
    if queue.stop_bytes and size:
        missing.append((queue.stop_bytes - octets) / size)
    return max(min(missing), 0.0) if missing else None


def _above(queue: QueueGauge) -> float:
    """Messages that have to leave before it is at its resume marks."""
    count, octets, size = _sizes(queue)
    return max(
        count - queue.resume_count if queue.stop_count else 0,
        (octets - queue.resume_bytes) / size if queue.stop_bytes and size else 0,
        0,
    )
