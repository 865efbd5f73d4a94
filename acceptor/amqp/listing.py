"""The connections of an acceptor with their consumers, as an operator sees them, and ends connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from acceptor.amqp.connection import Connection, forced
from acceptor.clients.channel_stage import OPEN as CHANNEL_OPEN
from acceptor.clients.connection_stage import OPEN
from acceptor.clients.traffic import Traffic
from penstock.amqp.spec import PROTOCOL_HEADER
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.state import AcceptorState

log = get_logger()


def connections(state: AcceptorState) -> list[dict[str, Any]]:
    """Return the open connections, the oldest first, with their users, channels and messages."""
    return [
        {
            **connection.whose(),
            "open_seconds": round(state.now - (connection.stay.opened or 0.0), 3),
            "heartbeat": connection.heartbeat,
            "channels": len(connection.channels),
            "consumers": sum(len(channel.consumers) for channel in connection.channels.values()),
            "unacked": sum(channel.unacked.total for channel in connection.channels.values()),
            "held_channels": sum(channel.held_by is not None for channel in connection.channels.values()),
            "parked_bytes": connection.kept.parked,
            "read": connection.reads,
            "received_bytes": len(PROTOCOL_HEADER) + connection.scanner.scanned,
            "reads": connection.scanner.scans,
            "sent_bytes": connection.output.popped,
            "writes": connection.output.pops,
            **_tls(connection),
        }
        for connection in _open(state)
    ]


def terms(state: AcceptorState, connections: list[Any]) -> dict[str, dict[str, Any]]:
    """Return, for those of these connections that are open, what their clients have said about themselves, and the
    limits agreed with them.
    """
    wanted = set(map(str, connections))
    return {
        connection.id: {
            "client_properties": _texts(connection.client.properties),
            "frame_max": connection.frame_max,
            "channel_max": connection.channel_max,
        }
        for connection in _open(state)
        if connection.id in wanted
    }


def _texts(properties: dict[str, Any]) -> dict[str, Any]:
    """Return client-properties with their bytes as text."""
    return {
        name: value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        for name, value in (
            (name, _texts(each) if isinstance(each, dict) else each) for name, each in properties.items()
        )
    }


def channels(state: AcceptorState) -> list[dict[str, Any]]:
    """Return the channels of open connections, those of the oldest connection first, with their modes and messages.
    `group` differs between channels that have had the same number one after the other; `counts` are those of
    `acceptor.clients.traffic`.
    """
    return [
        {
            **channel.whose(),
            "mode": _mode(channel),
            "consumers": len(channel.consumers),
            "unacked": channel.unacked.total,
            "prefetch": channel.receiving.prefetch,
            "shared_prefetch": channel.shared_prefetch.limit,
            "held": channel.held_by is not None,
            "group": channel.group,
            "counts": channel.counted().counts(),
        }
        for connection in _open(state)
        for channel in connection.channels.values()
    ]


def sums(state: AcceptorState) -> dict[str, int]:
    """Return the traffic of all channels since the acceptor's start, those that have ended included, and how many
    connections and channels were opened and closed, and queues declared.
    """
    counters, traffic = state.counters, Traffic()
    traffic.add(counters.ended)
    for channel in state.channels():
        if channel.stage is CHANNEL_OPEN:
            traffic.add(channel.counted())
    return {
        **traffic.counts(),
        "connections_opened": counters.connections_opened,
        "connections_closed": counters.connections_closed,
        "channels_opened": counters.channels_opened,
        "channels_closed": counters.channels_closed,
        "queues_declared": counters.queues_declared,
    }


def consumers(state: AcceptorState) -> list[dict[str, Any]]:
    """Return the consumers of open connections, those of the oldest connection first, with their queues and terms."""
    return [
        {
            **channel.whose(),
            "tag": consumer.tag,
            "queue": consumer.queue.name,
            "shard": consumer.queue.shard,
            "no_ack": consumer.no_ack,
            "prefetch": consumer.prefetch,
            "priority": consumer.priority,
            "exclusive": consumer.exclusive,
            "elected": consumer.elected,
        }
        for connection in _open(state)
        for channel in connection.channels.values()
        for consumer in channel.consumers.values()
    ]


def _tls(connection: Connection) -> dict[str, str]:
    """Return the version of TLS, the cipher, and the subject of the client's certificate; "" where there is none."""
    tls = connection.client.tls
    if tls is None:
        return {"tls": "", "cipher": "", "certificate": ""}
    return {"tls": tls.version, "cipher": tls.cipher, "certificate": tls.subject}


def _mode(channel: ChannelState) -> str:
    """Return "confirm", "transactional", or "plain" for neither (AMQP 0-9-1, 1.9, and RabbitMQ's confirm.select)."""
    if channel.confirms is not None:
        return "confirm"
    return "plain" if channel.transaction is None else "transactional"


def close(state: AcceptorState, connection: str, reason: str) -> bool:
    """Close a connection with 320 CONNECTION_FORCED for a reason. Return False if there is no such connection."""
    found = next((each for each in _open(state) if each.id == connection), None)
    if found is not None:
        log.info("connection closed by an operator", reason=reason, **found.whose())
        found.close(forced(reason))
    return found is not None


def _open(state: AcceptorState) -> Iterator[Connection]:
    for connection in list(state.connections.values()):
        if isinstance(connection, Connection) and connection.stage is OPEN:
            yield connection
