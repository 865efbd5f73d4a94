"""Who is held on a running node, and how fast queues drain."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ops.administration.processes import Facts, Processes
from penstock.gauges import QueueGauge

SAMPLE_SECONDS = 1.0
"""How long queues are watched to say how fast they drain."""


def held(processes: Processes) -> list[Facts]:
    """Who is held (`acceptor.told`), longest first."""
    return sorted(processes.ask_acceptors("held"), key=lambda held: -held["held_seconds"])


def drained(processes: Processes, slots: Iterable[int]) -> dict[int, Facts]:
    """Of queues by their slots: how many messages leave them a second, and when they resume.

    `resumes_in` is in seconds; None if nothing leaves.
    """
    before = {slot: processes.gauges.queue_read(slot) for slot in slots}
    if not before:
        return {}
    began = time.monotonic()
    time.sleep(SAMPLE_SECONDS)
    seconds = time.monotonic() - began
    found = {}
    for slot, earlier in before.items():
        now = processes.gauges.queue_read(slot)
        if earlier is not None and now is not None and earlier.queue_id == now.queue_id:
            found[slot] = _drain(earlier, now, seconds)
    return found


def _drain(earlier: QueueGauge, now: QueueGauge, seconds: float) -> Facts:
    count = now.ready + now.unacked
    rate = (now.published - earlier.published + earlier.ready + earlier.unacked - count) / seconds
    octets = now.ready_bytes + now.unacked_bytes
    size = octets / count if count else 0.0
    above = max(
        count - now.resume_count if now.stop_count else 0,
        (octets - now.resume_bytes) / size if now.stop_bytes and size else 0,
        0,
    )
    return {"drained_per_second": round(rate, 1), "resumes_in": round(above / rate, 1) if rate > 0 else None}
