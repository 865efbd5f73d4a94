"""Counts with their rates, as RabbitMQ's management gives them: `publish`, and `publish_details` with its rate."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Hashable, Mapping
from contextlib import suppress

from console.broker import Broker, Facts

SUMS_SECONDS = 2.0
DELIVERIES = ("deliver", "deliver_no_ack", "get", "get_no_ack")
CHURN = {
    "connection_created": "connections_opened",
    "connection_closed": "connections_closed",
    "channel_created": "channels_opened",
    "channel_closed": "channels_closed",
    "queue_declared": "queues_declared",
    "queue_created": "queues_made",
    "queue_deleted": "queues_removed",
}
"""RabbitMQ's names of the counts of churn, and ours."""


def message_stats(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts of messages (`acceptor.clients.traffic`) by RabbitMQ's names."""
    found = {
        "publish": counts["published"] + counts["returned"] + counts["dropped"],
        "confirm": counts["confirmed"],
        "return_unroutable": counts["returned"],
        "drop_unroutable": counts["dropped"],
        "deliver": counts["delivered"],
        "deliver_no_ack": counts["delivered_no_ack"],
        "get": counts["got"],
        "get_no_ack": counts["got_no_ack"],
        "get_empty": counts["got_empty"],
        "redeliver": counts["redelivered"],
        "ack": counts["acked"],
    }
    return {**found, "deliver_get": sum(found[name] for name in DELIVERIES)}


def with_rates(broker: Broker, kind: str, id: Hashable, counts: Mapping[str, int]) -> Facts:
    """Return the counts of an object, each with its rate since it was last asked for."""
    found: Facts = {}
    for name, rate in broker.rates.rates(kind, id, counts).items():
        found[name] = counts[name]
        found[f"{name}_details"] = {"rate": rate}
    return found


async def sums(broker: Broker) -> dict[str, int]:
    """Return the sums of all acceptors (`acceptor.amqp.listing`) and of the router (`router.commands`), each since the
    start of its process. One that does not answer soon is taken to have counted nothing since its last answer.
    """

    async def refresh(process: str, answer: Awaitable[dict[str, int]]) -> None:
        with suppress(OSError):
            async with asyncio.timeout(SUMS_SECONDS):
                broker.sums[process] = await answer

    acceptors = (refresh(f"acceptor {index}", broker.ask("acceptor", index, "sums")) for index in broker.serving())
    await asyncio.gather(refresh("router", broker.administer("queue_churn")), *acceptors)
    found: Counter[str] = Counter()
    for counts in broker.sums.values():
        found.update(counts)
    return found


def churn(broker: Broker, sums: Mapping[str, int]) -> Facts:
    """Return how many connections, channels and queues have come and gone, with rates."""
    return with_rates(broker, "churn", "", {name: sums[ours] for name, ours in CHURN.items()})
