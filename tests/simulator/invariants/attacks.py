"""Invariants of clients that attack memory: everything kept for them is charged, and bounded."""

from __future__ import annotations

from acceptor.budgets import outputs, unfinished
from acceptor.clients.connection_stage import OPEN
from acceptor.clients.connection_state import ConnectionState
from acceptor.clients.pauses import BODIES, OUTPUT
from acceptor.core import AcceptorCore
from tests.simulator.bounds import AMQP
from tests.simulator.joined.client import WRITE_HIGH_BYTES, Client
from tests.simulator.joined.node import Node
from tests.simulator.users import EVE

ATTACKER_READ = 64 * 1024
"""The most bytes of an attacker that are read at once."""
LARGEST_BODY = AMQP["max_message_size"]


def attackers_keep_to_their_bounds(node: Node) -> None:
    """Check the charges of attackers, connection by connection and in all."""
    for _, acceptor in node.running_acceptors():
        core, found = acceptor.core, 0
        for connection in core.state.connections.values():
            client = node.clients.get(connection)
            if client is not None and connection.user == EVE:
                attacker_keeps_to_its_bounds(core, connection, client)
                found += 1
        most = core.budgets.accounts.of_user + LARGEST_BODY + core.budgets.unfinished.limit
        most += found * (outputs.LEAST_BYTES + unfinished.LEAST_BYTES + 3 * ATTACKER_READ + at_once(core))
        kept = core.budgets.accounts.users.get(EVE, 0)
        assert kept <= most, (kept, most)


def attacker_keeps_to_its_bounds(core: AcceptorCore, connection: ConnectionState, client: Client) -> None:
    """Check the charges and bounds of an attacker's connection."""
    charged, waits = core.budgets.outputs.waits(connection), client.socket.waits
    assert waits == len(client.untaken)
    assert charged >= waits if connection in core.budgets.outputs.unsent else waits <= WRITE_HIGH_BYTES
    assert charged <= core.budgets.outputs.limit + at_once(core) + 3 * ATTACKER_READ, charged
    held = connection.scanner.unfinished
    counted = held > unfinished.LEAST_BYTES and connection.stage is OPEN
    assert connection.kept.unfinished == (held if counted else 0)
    assert held <= core.budgets.unfinished.limit + LARGEST_BODY + ATTACKER_READ


def nobody_is_unread_in_vain(core: AcceptorCore) -> None:
    """Check after all rechecks that every unread connection exceeds a limit, or its user does."""
    for connection in core.state.connections.values():
        waits, used_up = core.budgets.outputs.waits(connection), core.budgets.accounts.is_used_up(connection.user)
        if connection.pauses & OUTPUT:
            assert waits > core.budgets.outputs.limit // 2 or (used_up and waits > outputs.LEAST_BYTES)
        if connection.pauses & BODIES:
            assert used_up and core.budgets.unfinished.lines[connection.user].first is not connection


def at_once(core: AcceptorCore) -> int:
    """Return how many bytes may be written before a socket is known to accept nothing: its buffer, or all that was
    parked and is returned when a stop ends.
    """
    return max(WRITE_HIGH_BYTES, core.holding.drip.most_parked + ATTACKER_READ)
