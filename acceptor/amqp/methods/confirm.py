"""Class confirm: publisher confirms (RabbitMQ's extension)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.gates.confirms import Confirms
from penstock.amqp.errors import amqp_error

if TYPE_CHECKING:
    from acceptor.amqp.channel import Channel


def select(channel: Channel, arguments: dict[str, Any]) -> None:
    """Turn on confirms. 406 on a transactional channel."""
    if channel.transaction is not None:
        raise amqp_error(406, "cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not arguments["nowait"]:
        channel.send("confirm_select_ok")


HANDLERS = {"confirm_select": select}
