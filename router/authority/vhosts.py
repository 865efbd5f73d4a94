"""Virtual hosts: each is a topology of its own, without routes out of it (AMQP 0-9-1, 2.1.2)."""

from __future__ import annotations

from router.authority.ledger import Ledger
from router.model.records import DEFAULT_EXCHANGE, Exchange, Vhost, VhostMetadata
from router.model.resource_limits import Holder

DEFAULT_VHOST = "/"

PREDECLARED = (
    (DEFAULT_EXCHANGE, "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
    ("amq.flow", "topic", True),
)
"""The exchanges of every vhost: name, type, internal. All are durable."""


def add(ledger: Ledger, name: str) -> bool:
    """Make a vhost, or the predeclared exchanges that it lacks; whether it is new."""
    new = not ledger.topology.has_vhost(name)
    if new:
        ledger.record(Vhost(name).change(), durable=True)
    for exchange, kind, internal in PREDECLARED:
        if ledger.topology.exchange(name, exchange) is None:
            ledger.add_exchange(Exchange(name, exchange, kind, True, False, internal, {}))
    return new


def describe(ledger: Ledger, name: str, description: str | None, tags: list[str] | None) -> None:
    """Give an existing vhost another description, other tags; None leaves what it has."""
    before = ledger.topology.vhost_metadata.get(name) or VhostMetadata(name, "", [])
    after = VhostMetadata(
        name, before.description if description is None else description, before.tags if tags is None else tags
    )
    if after != before:
        ledger.record(after.change(), durable=True)


def delete(ledger: Ledger, name: str) -> None:
    """Delete an existing vhost with all its contents. Acceptors close its connections."""
    topology = ledger.topology
    for queue in topology.queues_in(name):
        ledger.remove_queue(queue)
    for exchange in topology.exchanges_in(name):
        if topology.exchange(name, exchange.name) is not None:  # an auto-delete one may be gone with the one before
            ledger.remove_exchange(exchange)
    for operator in (False, True):
        for policy in topology.policies(name, operator=operator):
            ledger.record(policy.change_gone(), durable=True)
    for stop in [stop for stop in topology.stops.values() if stop.vhost == name]:
        ledger.record(stop.change_gone(), durable=True)
    for placement in [placement for placement in topology.placements.values() if placement.vhost == name]:
        ledger.record(placement.change_gone(), durable=True)
    for topic in topology.users.topic_permissions(vhost=name):
        ledger.record(topic.change_gone(), durable=True)
    for permission in topology.users.permissions(vhost=name):
        ledger.record(permission.change_gone(), durable=True)
    ledger.forget_limits(Holder("vhost", name))
    if (metadata := topology.vhost_metadata.get(name)) is not None:
        ledger.record(metadata.change_gone(), durable=True)
    ledger.record(Vhost(name).change_gone(), durable=True)
