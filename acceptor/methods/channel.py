"""Class channel: flow from the client, and the end of a channel (AMQP 0-9-1, 1.5). Opening is the connection's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.asking import Handling, ask_shard
from penstock import bus

if TYPE_CHECKING:
    from acceptor.channel import Channel


def flow(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """The client stops or resumes what is delivered to it: nothing follows the flow-ok that says so.

    From php-amqplib this is how it answers our own channel.flow: then it is taken for the flow-ok that is due.
    """
    if channel.told_flow and not arguments["active"] and channel.delivers:
        channel.obedience.answered()
        return
    channel.delivers = arguments["active"]
    for shard, ids in channel.consumers_by_shard().items():
        yield from ask_shard(shard, bus.ACTIVE, ids, channel.delivers and not channel.connection.deliveries_withheld)
    channel.send("channel_flow_ok", active=channel.delivers)


def flow_ok(channel: Channel, arguments: dict[str, Any]) -> None:
    """The client heard our channel.flow; whether it obeys shows in what it publishes."""
    channel.obedience.answered()


def close(channel: Channel, arguments: dict[str, Any]) -> None:
    channel.end(keep_parked=True)
    channel.send("channel_close_ok")
    channel.connection.forget_channel(channel)


HANDLERS = {"channel_flow": flow, "channel_flow_ok": flow_ok, "channel_close": close}
