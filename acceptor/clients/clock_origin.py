"""When the machine's monotonic clock, by which an acceptor reckons, was at 0."""

from __future__ import annotations

from typing import NamedTuple


class ClockOrigin(NamedTuple):
    """When that clock was at 0, in seconds since 1970: by the wall clock, and by the node's (`penstock.node.clock`)."""

    wall: float = 0.0
    node: float = 0.0
