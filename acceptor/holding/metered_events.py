"""Events about limited rates and paced queues: `limited` when channels come to be held there, `unlimited` when none is.

A rate is used up again and again, and channels wait there again and again: a channel is held once it has waited for
`acceptor.gates.metered.HELD_AFTER`, and free once it has not waited for a while. Each acceptor reports its own
channels, by vhost.
"""

from __future__ import annotations

from typing import Any

from acceptor.gates.metered import Held


def facts(held: Held, limited: bool, now: float) -> dict[str, Any]:
    """Return the facts of an event (`penstock.flow.flow_events`). `now` is of the same clock as `held.since`."""
    cause = held.gate.describe()
    return {
        "event": "limited" if limited else "unlimited",
        "vhost": held.vhost,
        "queue": cause.name,
        "of": cause.sort,
        "cause": "rate" if cause.kind == "rate" else "pace",
        **cause.numbers,
        "reason": cause.text,
        **({"channels": held.channels} if limited else {"seconds": round(now - held.since, 3)}),
    }
