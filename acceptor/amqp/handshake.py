"""The handshake, from the protocol header to connection.open (AMQP 0-9-1, 2.2.4).

Each stage (acceptor/clients/connection_stage.py) expects one method and answers any other with 503; a client that takes
too long is disconnected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from acceptor.clients.connection_stage import CONNECTION, ConnectionEvent
from penstock import __version__
from penstock.amqp import methods_cy as methods
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.spec import MethodSpec
from penstock.amqp.tables_cy import decode_table
from penstock.text.durations import shown

if TYPE_CHECKING:
    from acceptor.amqp.services import Services
    from acceptor.clients.client import Client
    from acceptor.clients.connection_state import ConnectionState

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "authentication_failure_close",
    "consumer_priorities",
    "per_consumer_qos",
    "direct_reply_to",
    "leases",
)
# A refused login is answered only after this many seconds, so that guessing is slow.
REFUSAL_SECONDS = 1.0
FRAME_MIN = 4096
MECHANISMS = b"PLAIN AMQPLAIN"
WITH_CERTIFICATE = b"PLAIN AMQPLAIN EXTERNAL"
"""The mechanisms of clients that have sent a certificate."""

PRODUCTS: dict[str, dict[str, object]] = {
    "rabbitmq": {"product": "RabbitMQ", "version": "3.13.7", "penstock_version": __version__},
    "penstock": {"product": "penstock", "version": __version__},
}
"""The product that the broker says it is, by the setting `amqp.product`. Clients derive a broker's abilities from it:
kombu the meaning of basic.qos, others confirms. Their behaviour towards that RabbitMQ is right for this broker as well.
"""

SERVER_PROPERTIES: dict[str, object] = {
    "platform": "Python",
    "copyright": "The penstock authors",
    "information": "Licensed under the Apache License 2.0",
    "capabilities": dict.fromkeys(CAPABILITIES, True),
}


class Refused(Exception):
    """The handshake cannot go on and the client is disconnected without a reply; the text goes to the log."""


def start(connection: ConnectionState) -> None:
    """Send connection.start."""
    acceptor = connection.acceptor
    tls = connection.client.tls
    mechanisms = WITH_CERTIFICATE if tls is not None and tls.has_certificate else MECHANISMS
    connection.write(start_frame(acceptor.settings.amqp.product, acceptor.node_name, mechanisms))


@lru_cache(4)
def start_frame(product: str, node_name: str, mechanisms: bytes) -> bytes:
    """Return the frame of connection.start, the same for all connections with these mechanisms."""
    return methods.frame(
        0, "connection_start", version_major=0, version_minor=9,
        server_properties={**PRODUCTS[product], **SERVER_PROPERTIES, "cluster_name": node_name},
        mechanisms=mechanisms, locales=b"en_US",
    )  # fmt: skip


def start_ok(connection: ConnectionState, services: Services, arguments: dict[str, Any]) -> None:
    """Identify the client and begin its login."""
    client = connection.client
    client.identify(arguments["client_properties"])
    if client.traits.receive_buffer:
        connection.transport.limit_receive_buffer(client.traits.receive_buffer)
    mechanism, response = arguments["mechanism"], arguments["response"]
    if mechanism == "EXTERNAL":
        connection.log_in(mechanism, certified_user(client), None)
    else:
        connection.log_in(mechanism, *credentials(mechanism, response))


def certified_user(client: Client) -> str:
    """Return the user that a client's certificate names; "" if it names none. `Refused` if there is no certificate."""
    if client.tls is None or not client.tls.has_certificate:
        raise Refused("EXTERNAL without a certificate")
    return client.tls.user or ""


def tune(connection: ConnectionState) -> None:
    """Send connection.tune, as the login was accepted."""
    amqp = connection.acceptor.settings.amqp
    connection.send(
        0, "connection_tune", channel_max=amqp.channel_max, frame_max=amqp.frame_max, heartbeat=amqp.heartbeat
    )


def credentials(mechanism: str, response: bytes) -> tuple[str, str]:
    """Return the user and password of a start-ok. `Refused` if they cannot be read."""
    if mechanism == "PLAIN":
        parts = response.split(b"\0")
        if len(parts) != 3:
            raise Refused("malformed PLAIN response")
        return parts[1].decode("utf-8", "replace"), parts[2].decode("utf-8", "replace")
    if mechanism == "AMQPLAIN":
        data = len(response).to_bytes(4, "big") + response
        try:
            table, _ = decode_table(data, 0, len(data))
        except AMQPError as error:
            raise Refused("malformed AMQPLAIN response") from error
        if "LOGIN" not in table or "PASSWORD" not in table:
            raise Refused("AMQPLAIN response without LOGIN or PASSWORD")
        return str(table["LOGIN"]), str(table["PASSWORD"])
    raise Refused(f"unknown authentication mechanism '{mechanism}'")


def tune_ok(connection: ConnectionState, services: Services, arguments: dict[str, Any]) -> None:
    """Apply the limits that the client has chosen. 530 if one of them is out of bounds."""
    amqp = connection.acceptor.settings.amqp
    channel_max = _negotiated("channel_max", arguments["channel_max"], amqp.channel_max, 1)
    connection.channel_max = channel_max
    connection.frame_max = _negotiated("frame_max", arguments["frame_max"], amqp.frame_max, FRAME_MIN)
    connection.scanner.frame_max = connection.frame_max
    connection.heartbeat = arguments["heartbeat"]
    connection.happened(ConnectionEvent.TUNE_OK)


def _negotiated(name: str, asked: int, offered: int, least: int) -> int:
    """Return the value the client asks for. 530 if it exceeds the offer (0 is no limit) or is below the minimum."""
    if asked == 0:
        raise amqp_error(
            530, f"negotiated {name} = 0 (no limit) is higher than the maximum allowed value ({offered})"
        )  # fmt: skip
    if asked > offered:
        raise amqp_error(530, f"negotiated {name} = {asked} is higher than the maximum allowed value ({offered})")
    if asked < least:
        raise amqp_error(530, f"negotiated {name} = {asked} is lower than the minimum allowed value ({least})")
    return asked


def open_(connection: ConnectionState, services: Services, arguments: dict[str, Any]) -> None:
    """Open the vhost for the connection. 530 if it is unknown, access is refused, the user is held off or a limit is
    reached; `Undecided` if a service has to be asked.
    """
    acceptor, vhost = connection.acceptor, arguments["virtual_host"]
    if not acceptor.topology.has_vhost(vhost):
        raise amqp_error(530, f"vhost {vhost} not found")
    access = services.permissions.access(connection.access.rights, vhost)
    if not access.rights.may_open(vhost):
        raise amqp_error(530, f"access to vhost '{vhost}' refused for user '{connection.user}'")
    held_off = acceptor.topology.hold_offs.get((connection.user, connection.client.host))
    left = 0.0 if held_off is None else held_off.until - acceptor.now - acceptor.origin.node
    if held_off is not None and left > 0:
        raise amqp_error(
            530,
            f"connection refused for user '{connection.user}' from {connection.client.host}: held off for another "
            f"{shown(left)}, {held_off.reason}",
        )
    services.headcount.open_connection(connection, vhost)
    connection.access = access
    connection.send(0, "connection_open_ok")
    connection.happened(ConnectionEvent.OPEN)


Step = Callable[["ConnectionState", "Services", dict[str, Any]], None]

STEPS: Mapping[str, tuple[ConnectionEvent, Step]] = {
    "connection_start_ok": (ConnectionEvent.START_OK, start_ok),
    "connection_tune_ok": (ConnectionEvent.TUNE_OK, tune_ok),
    "connection_open": (ConnectionEvent.OPEN, open_),
}
"""The methods of the handshake: the event that each is, where it is as it should be, and what it does."""


def step(connection: ConnectionState, services: Services, method: MethodSpec, arguments: dict[str, Any]) -> None:
    """Process one method of the handshake. 503 if another one is due, `Refused` without a reply."""
    event, act = STEPS.get(method.name, (None, None))
    if event is None or act is None or not CONNECTION.allows(connection.stage, event):
        raise amqp_error(503, f"unexpected method {method.amqp_name} during the handshake", method)
    act(connection, services, arguments)
