"""The end of an acceptor in order, without its sockets: what it still waits for, for how long, and in which order.

    all that was sent becomes safe ──(or SAFE_SECONDS)──▶ clients are told and may answer ──(or DRAIN_SECONDS)──▶ over

The shell has stopped to accept clients and to read from them before this begins.
"""

from __future__ import annotations

from acceptor.clients.connection_stage import HANDSHAKE, ConnectionStage
from acceptor.clients.connection_state import ConnectionState
from acceptor.core import AcceptorCore
from penstock.bus.link_stage import UP

SAFE_SECONDS = 2.5
"""How long the publishes of clients may take to become safe: a disk may be busy for seconds."""
DRAIN_SECONDS = 2.0
"""How long clients may take to answer."""
END_SECONDS = 3.0
"""How long both may take together, which is less than the supervisor waits."""


class Ending:
    """The end of one incarnation, which `began` at that time of the core, in seconds."""

    def __init__(self, core: AcceptorCore, began: float) -> None:
        self._core = core
        self._ends = began + END_SECONDS

    def is_safe(self) -> bool:
        """Whether the shards that serve have reported all turns as safe, and nothing is left to be sent to them, or to
        the home of a queue that moves.
        """
        unsafe = any(link.stage is UP and (link.sent or link.turn.operations) for link in self._core.links)
        return not unsafe and not self._core.state.limbo

    def close_connections(self) -> list[ConnectionState]:
        """Close all open connections. Return those that are not open yet, or were refused: the reason cannot be sent to
        them, so their sockets are to be closed at once. The others are to be read again, until they answer.
        """
        connections = self._core.state.connections.values()
        unheard = [each for each in connections if each.stage in HANDSHAKE or each.stage is ConnectionStage.REFUSED]
        self._core.shut_down()
        return unheard

    def patience(self, now: float) -> float:
        """Return how long clients may take to answer, in seconds from now."""
        return min(self._ends - now, DRAIN_SECONDS)
