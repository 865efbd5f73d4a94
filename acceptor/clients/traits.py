"""How each client behaves when it is told to stop, as measured: the only table of it.

`honours_flow`: Channel.Flow(active=false) holds its publishes. Any other client ignores it at best; aiormq's next call
fails, Node's amqplib loses the connection, Bunny's reader dies.
`breaks_on_flow`: Channel.Flow is not sent to it even where an operator has chosen that as a means.
`impatient`: a connection that is not read is lost.
`drip_seconds`, `drip_bytes`: a read of at most `drip_bytes` bytes every `drip_seconds` then keeps it alive.
py-amqp's kernel gives up after about 1 s of a closed window (TCP_USER_TIMEOUT), php-amqplib after 3 s, the Go client
after 15 s, Bunny after 30 s; the others wait. A closed window opens again only when a segment (64 KiB on a loopback
device) and a sixteenth of the receive buffer are free.
`drip_heartbeats`: the drip's interval in heartbeat intervals, where that is shorter. aiormq's heartbeats wait behind
its publishes, and it gives up when they have for three intervals; its kernel lets it write on when a third of a send
buffer is free, which may be 4 MiB.
`receive_buffer`: the kernel's receive buffer, in bytes, for clients that give up within seconds (the kernel allocates
twice as much, and uses a good part of it for its own accounting): one drip then empties it, or nearly, and opens the
window; 0 leaves the listening socket's (`amqp.receive_buffer`).
`qos_of_running`: basic.qos without `global` also applies to running consumers, as the specification has it; kombu
raises the prefetch of a Celery worker that way for each task that waits for its time, where queues are quorum queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Traits:
    """How a client takes being held. The defaults are for an unknown client."""

    honours_flow: bool = False
    breaks_on_flow: bool = False
    impatient: bool = False
    drip_seconds: float = 10.0
    drip_bytes: int = 8 * 1024
    drip_heartbeats: float = 0.0
    receive_buffer: int = 0
    qos_of_running: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    """A client, identified by its client-properties; an empty platform matches any."""

    product: str
    platform: str
    traits: Traits


_WAITS = Traits(drip_seconds=60.0)
_WAITS_UNASKED = Traits(breaks_on_flow=True, drip_seconds=60.0)
_THREE_HEARTBEATS = Traits(
    breaks_on_flow=True, impatient=True, drip_seconds=60.0, drip_bytes=256 * 1024, drip_heartbeats=1 / 3
)
_ONE_SECOND = Traits(
    impatient=True, drip_seconds=0.4, drip_bytes=256 * 1024, receive_buffer=128 * 1024, qos_of_running=True
)
_THREE_SECONDS = Traits(impatient=True, drip_seconds=1.0, drip_bytes=256 * 1024, receive_buffer=128 * 1024)
_FIFTEEN_SECONDS = Traits(impatient=True, drip_seconds=2.0, drip_bytes=64 * 1024)
_THIRTY_SECONDS = Traits(breaks_on_flow=True, impatient=True, drip_seconds=5.0, drip_bytes=64 * 1024)

TABLE = (
    _Row("RabbitMQ", "Java", Traits(honours_flow=True, drip_seconds=60.0)),
    _Row("RabbitMQ", ".NET", Traits(honours_flow=True, drip_seconds=60.0)),
    _Row("penstock producer", "pika", Traits(honours_flow=True, drip_seconds=60.0)),
    _Row("penstock producer", "aiormq", replace(_THREE_HEARTBEATS, honours_flow=True, breaks_on_flow=False)),
    _Row("Pika Python Client Library", "", _WAITS),
    _Row("aiormq", "", _THREE_HEARTBEATS),
    _Row("AMQPStorm", "", _WAITS),
    _Row("amqplib", "", _WAITS_UNASKED),
    _Row("py-amqp", "", _ONE_SECOND),
    _Row("AMQPLib", "PHP", _THREE_SECONDS),
    _Row("AMQP 0.9.1 Client", "golang", _FIFTEEN_SECONDS),
    _Row("Bunny", "", _THIRTY_SECONDS),
)


PROPERTIES_MOST = 32
TEXT_MOST = 255
"""The most client-properties kept, and characters of one: clients must not use the broker's memory for storage."""


def kept(client_properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client-properties that a connection keeps: texts, numbers and flags, and the table of capabilities."""
    found = _plain(client_properties)
    capabilities = client_properties.get("capabilities")
    if isinstance(capabilities, Mapping):
        found["capabilities"] = _plain(capabilities)
    return found


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        if len(found) == PROPERTIES_MOST:
            break
        if isinstance(value, str | bytes):
            found[name] = value[:TEXT_MOST]
        elif isinstance(value, bool | int | float):
            found[name] = value
    return found


def traits_of(client_properties: Mapping[str, object]) -> Traits:
    """Return the traits of a client; careful ones if it is unknown."""
    product = str(client_properties.get("product", ""))
    platform = str(client_properties.get("platform", ""))
    for row in TABLE:
        if row.product == product and platform.startswith(row.platform):
            return row.traits
    return Traits()
