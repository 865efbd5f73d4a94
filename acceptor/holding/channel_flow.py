"""The choice of channels that Channel.Flow stops, and the end of such a stop.

      held ──(it honours Channel.Flow, and nothing is to be settled on its connection)──▶ flow(false)
      flow(false) ──(free again, or the connection begins to have something to settle)──▶ flow(true)

A program that consumes and publishes in one thread settles a delivery only after its publish has returned. Stopped, it
would stay in that publish, and not send the acks that make room for the program it waits for: two such programs that
feed each other's full queues would stand still for good. So a connection that has something to settle is held like that
of a client that does not know Channel.Flow: its publishes are parked, and acks are read among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.limits.means import Means

if TYPE_CHECKING:
    from acceptor.clients.connection_state import ConnectionState


def stops(connection: ConnectionState, means: Means) -> bool:
    """Whether the channels of a connection are stopped by Channel.Flow, by these means."""
    if not means.flow or connection.notices.ignores_flow or acknowledges(connection):
        return False
    return connection.client.traits.honours_flow if means.auto else not connection.client.traits.breaks_on_flow


def acknowledges(connection: ConnectionState) -> bool:
    """Whether the client has something to settle, or will: it has unacked deliveries, or consumes with acks."""
    return any(
        channel.has_in_hand() or any(not consumer.no_ack for consumer in channel.consumers.values())
        for channel in connection.channels.values()
    )
