"""Connections, channels and consumers as RabbitMQ's management shows them, from the answers of acceptors."""

from __future__ import annotations

import time

from console.api.counted import message_stats, with_rates
from console.broker import Broker, Facts
from console.http.caller import Caller
from penstock.limits.features import QueueFeatures
from penstock.node.node import Node

TERMS_AT_ONCE = 1000
"""Connections whose terms are asked for with one question."""


def visible(caller: Caller, found: list[Facts]) -> list[Facts]:
    """Return the connections, channels or consumers that a user sees: all, or its own."""
    return found if caller.monitors else [each for each in found if each["user"] == caller.user]


def connection_name(connection: Facts) -> str:
    """Return the name of the connection of a connection, channel or consumer: its peer, and its id in the node."""
    return f"{connection['peer']} -> {connection['connection']}"


def channel_name(channel: Facts) -> str:
    """Return the name of the channel of a channel or consumer."""
    return f"{connection_name(channel)} ({channel['channel']})"


def peer_of(connection: Facts) -> Facts:
    """Return host and port of the client."""
    host, _, port = connection["peer"].rpartition(":")
    return {"peer_host": host, "peer_port": int(port) if port.isdecimal() else 0}


def connection_names(connection: Facts) -> Facts:
    """Return how other objects name a connection."""
    return {"name": connection_name(connection), **peer_of(connection)}


def connection_facts(broker: Broker, connection: Facts) -> Facts:
    """Return a connection, without its terms."""
    tls = connection["tls"] != ""
    host, port = _served_at(broker.node, tls=tls)
    held = connection["held_channels"] > 0
    return {
        **connection_names(connection),
        "vhost": connection["vhost"],
        "user": connection["user"],
        "user_who_performed_action": connection["user"],
        "node": broker.name,
        "host": host,
        "port": port,
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "state": "blocked" if held or not connection["read"] else "running",
        "channels": connection["channels"],
        **connection["counted"],
        "connected_at": int((time.time() - connection["open_seconds"]) * 1000),
        "timeout": connection["heartbeat"],
        "ssl": tls,
        "ssl_protocol": connection["tls"] or None,
        "ssl_cipher": connection["cipher"] or None,
        "ssl_hash": None,
        "ssl_key_exchange": None,
        "peer_cert_subject": connection["certificate"] or None,
        "peer_cert_issuer": None,
        "peer_cert_validity": None,
        "flow": {
            "connection": connection["connection"],
            "held_channels": connection["held_channels"],
            "parked_bytes": connection["parked_bytes"],
            "read": connection["read"],
            "consumers": connection["consumers"],
            "unacked": connection["unacked"],
        },
    }


def _served_at(node: Node, *, tls: bool) -> tuple[str, int]:
    """Return where a client has connected: the first listener of its kind."""
    for name, settings in node.settings.listeners.items():
        if settings.is_tls == tls and (tls or not node.settings.plain):
            return node.listeners[name]
    return node.host, node.port


async def with_terms(broker: Broker, connections: list[Facts]) -> list[Facts]:
    """Return connections with what their clients have said about themselves, and the limits agreed with them."""
    ids: dict[int, list[str]] = {}
    for connection in connections:
        id = connection["flow"]["connection"]
        ids.setdefault(acceptor_of(id), []).append(id)
    terms: Facts = {}
    for acceptor, of_acceptor in ids.items():
        for begin in range(0, len(of_acceptor), TERMS_AT_ONCE):
            asked = of_acceptor[begin : begin + TERMS_AT_ONCE]
            terms |= await broker.ask("acceptor", acceptor, "terms", connections=asked)
    return [{**each, **_terms(terms.get(each["flow"]["connection"], {}))} for each in connections]


def _terms(terms: Facts) -> Facts:
    properties = terms.get("client_properties", {})
    return {
        "client_properties": properties,
        "user_provided_name": properties.get("connection_name"),
        "frame_max": terms.get("frame_max", 0),
        "channel_max": terms.get("channel_max", 0),
    }


def acceptor_of(connection: str) -> int:
    """Return the acceptor of a connection: the first part of its id."""
    return int(connection.partition(".")[0])


def channel_facts(broker: Broker, channel: Facts) -> Facts:
    """Return a channel."""
    return {
        "name": channel_name(channel),
        "number": channel["channel"],
        "connection_details": connection_names(channel),
        "vhost": channel["vhost"],
        "user": channel["user"],
        "user_who_performed_action": channel["user"],
        "node": broker.name,
        "state": "flow" if channel["held"] else "running",
        "confirm": channel["mode"] == "confirm",
        "transactional": channel["mode"] == "transactional",
        "consumer_count": channel["consumers"],
        "messages_unacknowledged": channel["unacked"],
        "prefetch_count": channel["prefetch"],
        "global_prefetch_count": channel["shared_prefetch"],
        "message_stats": channel["message_stats"],
        "flow": {"held": channel["held"]},
    }


async def channels(broker: Broker, acceptor: int | None = None) -> list[Facts]:
    """Return the channels of an acceptor or (None) all of them, with RabbitMQ's `message_stats`."""
    if acceptor is None:
        found = await broker.ask_acceptors("channels")
        broker.rates.keep("channel", [_of_channel(each) for each in found])
    else:
        found = await broker.ask("acceptor", acceptor, "channels")
    for each in found:
        each["message_stats"] = with_rates(broker, "channel", _of_channel(each), message_stats(each["counts"]))
    return found


def _of_channel(channel: Facts) -> tuple[str, int]:
    return channel["connection"], channel["group"]


async def connections(broker: Broker) -> list[Facts]:
    """Return all connections, with RabbitMQ's counts of what their sockets have received and sent."""
    found = await broker.ask_acceptors("connections")
    broker.rates.keep("connection", [each["connection"] for each in found])
    for each in found:
        counts = {
            "recv_oct": each["received_bytes"],
            "recv_cnt": each["reads"],
            "send_oct": each["sent_bytes"],
            "send_cnt": each["writes"],
        }
        rates = with_rates(broker, "connection", each["connection"], counts)
        each["counted"] = {name: rate for name, rate in rates.items() if not name.endswith("_cnt_details")}
    return found


def consumer_facts(broker: Broker, consumer: Facts) -> Facts:
    """Return a consumer. One of a queue with a single active consumer waits until that is its turn."""
    queue = broker.topology.queue(consumer["vhost"], consumer["queue"])
    single = queue is not None and QueueFeatures.from_wire(queue.features).single_active_consumer
    active = consumer["elected"] or not single
    return {
        "consumer_tag": consumer["tag"],
        "queue": {"vhost": consumer["vhost"], "name": consumer["queue"]},
        "ack_required": not consumer["no_ack"],
        "exclusive": consumer["exclusive"],
        "prefetch_count": consumer["prefetch"],
        "arguments": {"x-priority": consumer["priority"]} if consumer["priority"] else {},
        "active": active,
        "activity_status": "single_active" if single and active else "waiting" if single else "up",
        "channel_details": {
            "name": channel_name(consumer),
            "number": consumer["channel"],
            "connection_name": connection_name(consumer),
            **peer_of(consumer),
            "user": consumer["user"],
            "node": broker.name,
        },
    }
