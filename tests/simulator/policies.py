"""The policies that operators of models and of simulated nodes set."""

from __future__ import annotations

from typing import Any

from acceptor.gates.rates import SECOND

Definition = dict[str, Any]

LANE: Definition = {"flow-stop-count": 8, "lane-key": "wildcard:>", "lane-reserve": 4}
"""With it some messages overtake others."""
PACES: tuple[Definition, ...] = (
    {"pace-depth": 6}, {"pace-depth": 2, "flow-stop-count": 30}, {"pace-depth": 12, "flow-stop-size": 60_000},
    {"pace-wait": "300 ms"},
)  # fmt: skip
RATES: tuple[Definition, ...] = (
    {"max-rate": 40, "rate-burst": "100 ms"}, {"max-rate": 100, "rate-burst": "200 ms", "flow-stop-count": 10},
    {"max-rate-bytes": "400 kB", "rate-burst": "100 ms"},
)  # fmt: skip
LADDERS: tuple[Definition, ...] = (
    {"flow-stop-count": 6, "hold": "park 50 ms, reject"}, {"flow-stop-count": 10, "hold": "reject"},
    {"flow-stop-count": 8, "hold": "withhold 20 ms, pause 100 ms, reject 200 ms, close-channel"},
    {"flow-stop-count": 4, "hold": "park 30 ms, close-channel 1 s, close-connection"},
    {"flow-stop-count": 6, "hold": "pause 20 ms, close-connection, hold-off 200 ms"},
)  # fmt: skip
"""On the last rungs publishes are refused, and clients lose their channel or connection."""
POLICIES: tuple[Definition | None, ...] = (
    None, {"flow-stop-count": 3}, {"flow-stop-count": 100, "flow-stop-size": 30_000}, {"flow-resume-count": 0},
    {"flow-stop-count": 5, "throttle": "pause"}, {"throttle": "flow, park"}, {"throttle": "blocked, confirms, pause"},
    {"flow-stop-count": 20, "hold": "withhold 1 s, park 1 s, pause"},
    {"max-length": 4, "overflow": "reject-publish"}, {"max-length": 10, "overflow": "flow"}, {"max-length": 3},
    LANE, *PACES, *RATES, *LADDERS, {"flow-stop-count": 6, "deadlock": "nack"},
    {"flow-stop-count": 4, "deadlock": "spill"}, {"flow-stop-count": 12, "deadlock": "report"},
)  # fmt: skip
"""Policies of queues: marks for a queue without, others, none at all, another overflow, a lane, a pace, a rate, a
ladder, or what to do about a deadlock.
"""
OWNERS: dict[str, tuple[str, str, str]] = {
    "user": ("users", "/", "^guest$"), "exchange": ("exchanges", "/", "^(some|fan)$"), "vhost": ("vhosts", "", "^/$"),
    "node": ("node", "", ""),
}  # fmt: skip
"""What several queues have in common: what the policy applies to, its vhost, and its pattern."""
SHARED: tuple[Definition | None, ...] = (
    None, {"max-rate": 80, "rate-burst": "200 ms"},
    {"max-rate": 200, "max-rate-bytes": "800 kB", "rate-burst": "100 ms"},
    {"sum-stop-count": 12, "sum-resume-count": 6}, {"deepest-stop-count": 4}, {"sum-stop-size": 90_000},
    {"sum-stop-count": 30, "sum-stop-size": "200 kB", "throttle": "blocked, confirms, pause"},
    {"max-rate": 80, "rate-burst": "200 ms", "deepest-stop-count": 10, "deepest-resume-count": 2},
)  # fmt: skip
"""Limits of several queues together."""
LONGEST_BURST = SECOND // 5
"""No policy has a longer burst, in nanoseconds."""
