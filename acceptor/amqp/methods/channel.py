"""Class channel: flow from the client, and the end of a channel (AMQP 0-9-1, 1.5). The connection opens channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.clients.asking import Handling, ask_shard
from acceptor.clients.channel_stage import ChannelEvent
from penstock.bus import to_shard

if TYPE_CHECKING:
    from acceptor.amqp.channel import Channel


def flow(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Stop or resume deliveries to the client: none follows the flow-ok that confirms a stop.

    php-amqplib answers the broker's own channel.flow with this method: it then counts as the flow-ok that is due.
    """
    if channel.notices.flow and not arguments["active"] and channel.receiving.active:
        channel.notices.compliance.answered()
        return
    channel.receiving.active = arguments["active"]
    for shard, ids in channel.consumers_by_shard().items():
        yield from ask_shard(shard, to_shard.Active(ids, channel.is_delivered_to()))
    channel.send("channel_flow_ok", active=channel.receiving.active)


def flow_ok(channel: Channel, arguments: dict[str, Any]) -> None:
    """Record that the client received the broker's channel.flow; whether it obeys shows in its publishes."""
    channel.notices.compliance.answered()


def close(channel: Channel, arguments: dict[str, Any]) -> None:
    """Close the channel; its parked publishes are kept."""
    channel.end(ChannelEvent.CLOSE, keep_parked=True)
    channel.send("channel_close_ok")
    channel.connection.forget_channel(channel)


HANDLERS = {"channel_flow": flow, "channel_flow_ok": flow_ok, "channel_close": close}
