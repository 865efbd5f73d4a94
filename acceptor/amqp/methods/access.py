"""Class access, of older versions of AMQP: clients that still use it get a ticket that opens everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acceptor.amqp.channel import Channel


def request(channel: Channel, arguments: dict[str, Any]) -> None:
    """Answer with the ticket 1."""
    channel.send("access_request_ok", ticket=1)


HANDLERS = {"access_request": request}
