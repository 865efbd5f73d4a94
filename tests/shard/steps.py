"""Common steps of a shard's tests, with the joined cores."""

from __future__ import annotations

from typing import Any

from tests.frames import Event
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


def publish(client: Client, queue: str, *bodies: bytes, exchange: str = "", **properties: Any) -> None:
    """Publish all bodies in one read: one batch."""
    for body in bodies:
        client.publish(1, body, exchange, queue, **properties)
    client.read()
    client.node.settle()


def get(client: Client, queue: str, no_ack: bool = True) -> Event | None:
    """Get a message; return None if the queue is empty."""
    client.send("basic.get", 1, queue=queue, no_ack=no_ack)
    client.node.settle()
    if "basic.get-empty" in client.names(1):
        client.take("basic.get-empty", 1)
        return None
    return client.take("basic.get-ok", 1)


def drain(client: Client, queue: str) -> list[bytes]:
    """Return the bodies of all ready messages."""
    bodies = []
    while (got := get(client, queue)) is not None:
        bodies.append(got.body)
    return bodies


def pass_ms(node: Node, milliseconds: int) -> None:
    """Let time pass, then let the node settle."""
    node.now += milliseconds / 1000
    node.settle()


def recount(node: Node, name: str) -> None:
    """Check that a queue's gauges show its contents, and that every message is accounted for."""
    state = node.state(name)
    gauge = node.gauges.queue_read(state.slot)
    assert gauge is not None
    contents = state.contents
    assert (gauge.ready, gauge.unacked) == (contents.ready, contents.unacked)
    assert (gauge.ready_bytes, gauge.unacked_bytes) == (contents.ready_bytes, contents.unacked_bytes)
    totals = contents.totals
    assert totals.published == contents.ready + contents.unacked + totals.acked + totals.dropped


def dlx(to: str = "", key: str | None = "dead", **arguments: Any) -> dict[str, Any]:
    """Return the arguments of a queue that dead-letters to an exchange, with this key if any; others are spelled with
    underscores.
    """
    return {
        "x-dead-letter-exchange": to,
        **({} if key is None else {"x-dead-letter-routing-key": key}),
        **{
            name.replace("qpid_", "qpid.") if name.startswith("qpid") else name.replace("_", "-"): value
            for name, value in arguments.items()
        },
    }
