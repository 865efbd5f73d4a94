"""The held channels of the node and their causes, asked of its processes."""

from __future__ import annotations

import asyncio

from console.broker import Broker, Facts
from console.flow.chain import Situation, by_acceptor, queues_of, with_owners
from console.flow.rates import rates

QUEUES_MOST = 100
"""Queues whose consumers are asked for, for one answer."""


async def reached(broker: Broker, connection: str) -> Situation:
    """Return the situation, with the consumers of the queues that a held connection waits for, directly or through
    others.
    """
    held, unread = await broker.held(), await broker.ask_acceptors("unread")
    of_connection: dict[str, list[Facts]] = {}
    for channel in held:
        of_connection.setdefault(channel["connection"], []).append(channel)
    consumers: dict[int, list[Facts]] = {}
    passed, next_ones = {connection}, [connection]
    while next_ones and len(consumers) < QUEUES_MOST:
        causes = queues_of(channel for each in next_ones for channel in of_connection.get(each, ()))
        new = {id: cause for id, cause in causes.items() if id not in consumers}
        found = await asyncio.gather(*(consumers_of(broker, cause) for cause in new.values()))
        consumers.update(zip(new, found, strict=True))
        behind = {each["whose"]["connection"] for answer in found for each in answer if each["whose"] is not None}
        next_ones = sorted(behind - passed)
        passed |= behind
    by_slot = {cause["slot"]: known for id, cause in queues_of(held).items() if (known := rates_of(broker, id))}
    return Situation(held, unread, by_slot, lambda cause: consumers.get(cause["id"], []))


async def consumers_of(broker: Broker, cause: Facts) -> list[Facts]:
    """Return the consumers of a queue that is a cause, each with the facts that its acceptor has of it."""
    if cause["shard"] is None:
        return []
    found: list[Facts] = await broker.ask("shard", cause["shard"], "consumers", id=cause["id"])
    answers = await asyncio.gather(
        *(broker.ask("acceptor", index, "consumers", ids=ids) for index, ids in by_acceptor(found).items())
    )
    return with_owners(found, answers)


def rates_of(broker: Broker, id: int) -> Facts | None:
    """Return the rates of a queue (`console.flow.rates`); None while they are not known."""
    pair = broker.sampler.pair(id)
    if pair is None or pair.at <= pair.before_at:
        return None
    return rates(pair.before, pair.now, pair.at - pair.before_at)
