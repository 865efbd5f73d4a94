"""Who is stopped by Channel.Flow, and when that is taken back.

      held ──(it honours Channel.Flow, and nothing is to be settled on its connection)──▶ flow(false)
      flow(false) ──(free again, or the connection begins to have something to settle)──▶ flow(true)

A program that consumes and publishes in one thread settles what it has consumed when its publish has returned. Told to
stop it would stay in that publish, and the room that its acks make be missing to whom it waits for: two such programs
that feed each other's full queues would stand still for good. So a connection that has something to settle is held as
those of clients are that do not know Channel.Flow: its publishes are parked, and its acks read among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.limits.means import Means

if TYPE_CHECKING:
    from acceptor.connection_state import ConnectionState


def stops(connection: ConnectionState, means: Means) -> bool:
    """Whether it is stopped by Channel.Flow."""
    if not means.flow or connection.ignores_flow or acknowledges(connection):
        return False
    return connection.traits.honours_flow if means.auto else not connection.traits.breaks_on_flow


def acknowledges(connection: ConnectionState) -> bool:
    """Whether something is to be settled on it, or will be: it has deliveries in hand, or consumes with acks."""
    return any(
        channel.has_in_hand() or any(not consumer.no_ack for consumer in channel.consumers.values())
        for channel in connection.channels.values()
    )
