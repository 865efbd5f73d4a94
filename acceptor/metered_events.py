"""Events about limits of rates and paced queues: `limited` when somebody is held there, `unlimited` when nobody is.

A rate is used up again and again, and who waits there goes on again and again: held is who has waited for
`acceptor.metered.TOLD_AFTER`, free who is not seen waiting any more. Each acceptor tells of its own sessions, in each
vhost of theirs.
"""

from __future__ import annotations

from typing import Any

from acceptor.gate import Gate
from acceptor.inlet import Inlet
from acceptor.metered import Held
from acceptor.rates import RateGate


def facts(held: Held, limited: bool, now: float) -> dict[str, Any]:
    """An event, as it is told (`penstock.flow.flow_events`); `now` in seconds of the clock that `held.since` is of."""
    return {
        "event": "limited" if limited else "unlimited",
        "vhost": held.vhost,
        **_of(held.gate),
        "reason": str(held.gate),
        **({"sessions": held.sessions} if limited else {"seconds": round(now - held.since, 3)}),
    }


def _of(gate: Gate) -> dict[str, Any]:
    """What it is about, and of a queue the numbers that all events of queues have."""
    numbers = dict.fromkeys(("count", "bytes", "stop_count", "resume_count", "stop_bytes", "resume_bytes"), 0)
    if isinstance(gate, RateGate):
        limit = gate.limit
        rate = {"max_rate": limit.messages, "max_rate_bytes": limit.octets}
        return {"queue": limit.name or limit.sort, "of": limit.sort, "cause": "rate", **numbers, **rate}
    assert isinstance(gate, Inlet)
    marks, (count, octets) = gate.limits.marks, gate.depth()
    numbers |= {"count": count, "bytes": octets, "stop_count": marks.stop_count, "resume_count": marks.resume_count}
    numbers |= {"stop_bytes": marks.stop_bytes, "resume_bytes": marks.resume_bytes}
    return {"queue": gate.name, "of": "queue", "cause": "pace", **numbers}
