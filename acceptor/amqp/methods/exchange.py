"""Class exchange: declare, delete, and RabbitMQ's bind and unbind (AMQP 0-9-1, 1.6). The router decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.amqp.methods.queue import check_source
from acceptor.clients.asking import Handling, ask_router
from acceptor.clients.redeclaring import binding_is_equal, exchange_is_equal
from router.model.records import Binding

if TYPE_CHECKING:
    from acceptor.amqp.channel import Channel

SYSTEM = "amq."


def declare(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Have the router declare an exchange."""
    check_declare(channel, arguments["exchange"], arguments)
    if not exchange_is_equal(channel, arguments):
        yield from ask_router(
            "exchange_declare",
            vhost=channel.access.vhost,
            name=arguments["exchange"],
            type=arguments["type"],
            passive=arguments["passive"],
            durable=arguments["durable"],
            auto_delete=arguments["auto_delete"],
            internal=arguments["internal"],
            arguments=arguments["arguments"],
            user=channel.access.declarer,
        )
    if not arguments["nowait"]:
        channel.send("exchange_declare_ok")


def check_declare(channel: Channel, name: str, arguments: dict[str, Any]) -> None:
    """Raise 403 without the right to configure it, or any right for passive; a new one with an alternate takes more
    (RabbitMQ's rule).
    """
    if not name:  # the router refuses the default exchange to every user
        return
    if arguments["passive"]:
        channel.access.check_any("exchange", name)
        return
    channel.access.check("configure", "exchange", name)
    alternate = arguments["arguments"].get("alternate-exchange")
    if isinstance(alternate, str) and channel.acceptor.topology.exchange(channel.access.vhost, name) is None:
        channel.access.check("read", "exchange", name)
        channel.access.check("write", "exchange", alternate)


def delete(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Have the router delete an exchange."""
    name = arguments["exchange"]
    if name and not name.startswith(SYSTEM):  # the router refuses the others to every user
        channel.access.check("configure", "exchange", name)
    yield from ask_router(
        "exchange_delete", vhost=channel.access.vhost, name=arguments["exchange"], if_unused=arguments["if_unused"]
    )
    if not arguments["nowait"]:
        channel.send("exchange_delete_ok")


def bind(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Have the router bind an exchange to another one."""
    vhost, source, destination = channel.access.vhost, arguments["source"], arguments["destination"]
    key, more = arguments["routing_key"], arguments["arguments"]
    maker = channel.access.maker_of(channel.acceptor.topology.exchange(vhost, source), source, key)
    wanted = Binding(vhost, source, "exchange", destination, key, more, maker)
    yield from _bind(channel, "exchange_bind", arguments, wanted, user=maker)


def unbind(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Have the router remove a binding between exchanges."""
    yield from _bind(channel, "exchange_unbind", arguments)


def _bind(
    channel: Channel, name: str, arguments: dict[str, Any], wanted: Binding | None = None, **more: Any
) -> Handling:
    channel.access.check("write", "exchange", arguments["destination"])
    check_source(channel, arguments["source"], arguments["routing_key"])
    if wanted is None or not binding_is_equal(channel, wanted):
        yield from ask_router(
            name,
            vhost=channel.access.vhost,
            destination=arguments["destination"],
            source=arguments["source"],
            key=arguments["routing_key"],
            arguments=arguments["arguments"],
            **more,
        )
    if not arguments["nowait"]:
        channel.send(f"{name}_ok")


HANDLERS = {"exchange_declare": declare, "exchange_delete": delete, "exchange_bind": bind, "exchange_unbind": unbind}
