"""How much a message in flight to a shard counts against the bound of the link (docs/decisions/0002).

A shard takes in all arrived messages before it delivers, so everything in flight delays the next delivery. The cost of
that depends on the queue. Where consumers keep pace, a message is delivered in the turn in which it came, and large
turns share their fixed cost among many. In a queue that has grown although it has consumers, each message that comes in
uses the time of a delivery, and the queue grows further: the fewer are in flight, the more time is left for consumers.
So a message weighs by its queue, and the sum of the weights is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.memory.gauges import Gauges

# In quarters, as `acceptor.links.in_flight_cy` counts. Of messages that soon leave: all their queues are shallow.
PASSING: Final = 1
WHOLE: Final = 4
# Of messages for a queue that is not shallow though it has consumers.
LAGGING: Final = 16
BY_BACKLOG = (PASSING, WHOLE, LAGGING)
"""Indexed by the result of `Gauges.backlog`."""

# A queue with no more than that, ready and unacked, is shallow: messages just pass through it.
SHALLOW_COUNT = 8192
SHALLOW_BYTES = 4 * 1024 * 1024


def weight_of(gauges: Gauges, slots: tuple[int, ...]) -> int:
    """Return the weight of messages for the queues with these slots in the gauges; `WHOLE` without any."""
    return BY_BACKLOG[gauges.backlog(slots, SHALLOW_COUNT, SHALLOW_BYTES)] if slots else WHOLE
