"""How much what is in flight to a shard counts against the bound of that (docs/decisions/0002).

A shard takes in what has come before it delivers, so all that is in flight stands before the next delivery. What that
costs depends on the queue. Where consumers keep pace, a message goes out in the turn in which it came, and large turns
share their fixed cost among many. In a queue that has grown although it has consumers, each message that comes in costs
what their next deliveries would, and the queue grows further: the fewer are in flight, the more of the shard's time is
theirs. So a message weighs by what becomes of it; the sum of the weights is what is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.memory.gauges import Gauges

# In quarters, as `acceptor.in_flight_cy` counts. Of what is soon gone: every queue that it is for is shallow.
PASSING: Final = 1
WHOLE: Final = 4
# Of what is for a queue that is not, though it has consumers.
LAGGING: Final = 16
BY_BACKLOG = (PASSING, WHOLE, LAGGING)
"""By what `Gauges.backlog` says."""

# A queue that holds no more than that, ready and unacked, only passes on what it gets.
SHALLOW_COUNT = 8192
SHALLOW_OCTETS = 4 * 1024 * 1024


def weight_of(gauges: Gauges, slots: tuple[int, ...]) -> int:
    """That of messages for the queues with these slots in the gauges; without any, of what is for no queue."""
    return BY_BACKLOG[gauges.backlog(slots, SHALLOW_COUNT, SHALLOW_OCTETS)] if slots else WHOLE
