"""Declarations of what exists and is equal: the acceptor answers them by its replica and the gauges.

The router publishes a change, and the version is in the gauges, before anybody learns that the change was made. So a
replica that is not behind that version has everything that any client knows of. All else is asked: the router about
what is missing or otherwise, for it decides, and the shard about the numbers of a queue to which this acceptor has
something under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.gates.rights import Undecided
from penstock.amqp.errors import AMQPError
from penstock.amqp.spec import MethodSpec
from penstock.bus.link_stage import UP
from penstock.limits.features import expires_on_wire
from router.model.fields import equal_tables
from router.model.records import Binding

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from router.model.topology import Queue


def equal_queue(channel: ChannelState, arguments: dict[str, Any]) -> Queue | None:
    """Return the queue that a queue.declare repeats; None if the router has to decide."""
    if channel.acceptor.behind():
        return None
    queue = channel.acceptor.topology.queue(channel.access.vhost, arguments["queue"])
    exclusive = arguments["exclusive"]
    if (
        queue is None
        or queue.owner != (channel.connection.id if exclusive else None)
        or queue.durable != (arguments["durable"] and not exclusive)
        or queue.auto_delete != arguments["auto_delete"]
        or not equal_tables(queue.arguments, arguments["arguments"])
    ):
        return None
    return queue


def existing_queue(channel: ChannelState, arguments: dict[str, Any]) -> Queue | None:
    """Return the queue that a passive queue.declare asks for, if the connection may use it; None if the replica does
    not tell.
    """
    if channel.acceptor.behind():
        return None
    queue = channel.acceptor.topology.queue(channel.access.vhost, arguments["queue"])
    return queue if queue is None or queue.owner in (None, channel.connection.id) else None


def exchange_is_equal(channel: ChannelState, arguments: dict[str, Any]) -> bool:
    """Whether an exchange.declare repeats another one, or asks for an exchange that exists; if not the router has to
    decide.
    """
    name = arguments["exchange"]
    if not name or channel.acceptor.behind():
        return False
    exchange = channel.acceptor.topology.exchange(channel.access.vhost, name)
    if exchange is None or arguments["passive"]:
        return exchange is not None
    wanted = arguments["type"], arguments["durable"], arguments["auto_delete"], arguments["internal"]
    found = exchange.type, exchange.durable, exchange.auto_delete, exchange.internal
    return wanted == found and equal_tables(exchange.arguments, arguments["arguments"])


def binding_is_equal(channel: ChannelState, binding: Binding) -> bool:
    """Whether a binding of the same user exists; if not the router has to decide."""
    topology = channel.acceptor.topology
    if channel.acceptor.behind() or topology.exchange(binding.vhost, binding.source) is None:
        return False
    existing = topology.binding(binding)
    return existing is not None and existing.maker == binding.maker


def repeats(channel: ChannelState, method: MethodSpec, arguments: dict[str, Any]) -> Queue | bool:
    """Whether a method declares what exists and is equal, as its user may; return the queue if it answers with numbers
    of one.
    """
    access = channel.access
    try:
        match method.name:
            case "queue_declare":
                access.check("configure", "queue", arguments["queue"])
                found = (existing_queue if arguments["passive"] else equal_queue)(channel, arguments)
                return found if found is not None and not arguments["nowait"] else found is not None
            case "exchange_declare":
                access.check("configure", "exchange", arguments["exchange"])
                return exchange_is_equal(channel, arguments)
    except (AMQPError, Undecided):
        return False
    return False


def numbers(channel: ChannelState, queue: Queue) -> tuple[int, int] | None:
    """Return the ready messages and the consumers of a queue as the gauges have them; None if its shard has to be
    asked, because it has not reported everything that came from here, or must learn of the use of the queue.
    """
    acceptor = channel.acceptor
    link = acceptor.links[queue.shard]
    if acceptor.behind() or link.stage is not UP or queue.shard in channel.shards or link.is_bound_for(queue.queue_id):
        return None
    gauge = acceptor.gauges.queue_read(queue.slot)
    if gauge is None or gauge.queue_id != queue.queue_id or queue.queue_id in acceptor.topology.moves:
        return None
    if not gauge.consumers and expires_on_wire(queue.features) is not None:
        return None
    return gauge.ready, gauge.consumers
