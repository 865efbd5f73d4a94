"""Events about limited rates and paced queues: `limited` when channels come to be held there, `unlimited` when none is.

A rate is used up again and again, and channels wait there again and again: a channel is held once it has waited for
`acceptor.gates.metered.TOLD_AFTER`, and free once it has not waited for a while. Each acceptor reports its own
channels, by vhost.
"""

from __future__ import annotations

from typing import Any

from acceptor.gates.gate import Gate
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.metered import Held
from acceptor.gates.rates import RateGate


def facts(held: Held, limited: bool, now: float) -> dict[str, Any]:
    """Return the facts of an event (`penstock.flow.flow_events`). `now` is of the same clock as `held.since`."""
    return {
        "event": "limited" if limited else "unlimited",
        "vhost": held.vhost,
        **_of(held.gate),
        "reason": str(held.gate),
        **({"sessions": held.sessions} if limited else {"seconds": round(now - held.since, 3)}),
    }


def _of(gate: Gate) -> dict[str, Any]:
    """Return the subject of the event, with the numbers that all events of queues have; 0 for a rate."""
    numbers = dict.fromkeys(("count", "bytes", "stop_count", "resume_count", "stop_bytes", "resume_bytes"), 0)
    if isinstance(gate, RateGate):
        limit = gate.limit
        rate = {"max_rate": limit.messages, "max_rate_bytes": limit.octets}
        return {"queue": limit.name or limit.sort, "of": limit.sort, "cause": "rate", **numbers, **rate}
    assert isinstance(gate, QueueGate)
    marks, (count, octets) = gate.limits.marks, gate.depth()
    numbers |= {"count": count, "bytes": octets, "stop_count": marks.stop_count, "resume_count": marks.resume_count}
    numbers |= {"stop_bytes": marks.stop_bytes, "resume_bytes": marks.resume_bytes}
    return {"queue": gate.name, "of": "queue", "cause": "pace", **numbers}
