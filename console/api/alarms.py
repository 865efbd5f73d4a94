"""Alarms: resources of a shard of which so much is used that it holds its producers."""

from __future__ import annotations

from console.broker import Broker, Facts

MEMORY = (0, 1)
"""The numbers of the resources of a gate (docs/gauges.md) that are memory; others are of the disk."""


def in_alarm(broker: Broker) -> tuple[bool, bool]:
    """Whether memory holds producers, and whether the disk does."""
    held = [gate.consumers in MEMORY for gate in broker.reading().gates.values() if gate.saturated]
    return any(held), not all(held)


def alarms(broker: Broker) -> list[Facts]:
    """Return the alarms as RabbitMQ's management lists them, and the shards with their reasons."""
    return [
        {
            "node": broker.name,
            "resource": "memory" if gate.consumers in MEMORY else "disk",
            "shard": shard,
            "reason": gate.name,
        }
        for shard, gate in broker.reading().gates.items()
        if gate.saturated
    ]
