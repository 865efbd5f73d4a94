"""What each client does when it is told to stop, measured: the one table of it.

`honours_flow`: Channel.Flow(active=false) holds its publishes. Sent to any other client it is ignored at best; aiormq's
next call fails, Node's amqplib loses the connection, Bunny's reader dies.
`drip_seconds`: how long its connection survives a socket that is not read at all, with a margin; while the socket is
paused a small read in between, at least this often, keeps it alive. py-amqp's kernel gives up after about 1 s
(TCP_USER_TIMEOUT), php-amqplib after 3 s, the Go client after 15 s, Bunny after 30 s; the others wait.
`receive_buffer`: a closed window opens again only when a sixteenth of the receive buffer is free (tcp(7)), and the
kernel grows that to megabytes: for clients that wait less than a few drips it is kept to so many octets. 0 leaves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traits:
    """How a client takes being held."""

    honours_flow: bool = False
    drip_seconds: float = 5.0
    receive_buffer: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    """A client by what its client-properties say; an empty text matches anything."""

    product: str
    platform: str
    traits: Traits


TABLE = (
    _Row("RabbitMQ", "Java", Traits(honours_flow=True)),
    _Row("RabbitMQ", ".NET", Traits(honours_flow=True)),
    _Row("py-amqp", "", Traits(drip_seconds=0.3, receive_buffer=131072)),
    _Row("AMQPLib", "PHP", Traits(drip_seconds=0.5, receive_buffer=131072)),
    _Row("AMQP 0.9.1 Client", "golang", Traits(drip_seconds=1.0)),
    _Row("Bunny", "", Traits(drip_seconds=2.0)),
)


def traits_of(client_properties: Mapping[str, object]) -> Traits:
    """The traits of a client; those of a careful stranger where it is not known."""
    product = str(client_properties.get("product", ""))
    platform = str(client_properties.get("platform", ""))
    for row in TABLE:
        if row.product == product and platform.startswith(row.platform):
            return row.traits
    return Traits()
