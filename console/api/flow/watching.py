"""Publish rates of channels, watched for a while."""

from __future__ import annotations

import asyncio

from console.broker import Broker, Facts
from console.flow.publishing import rates_between

WATCHED_SECONDS = 1.0


async def publish_rates(broker: Broker) -> list[Facts]:
    """Return the present publish rates of channels, by route (`console.flow.publishing`). Takes WATCHED_SECONDS."""
    serving = broker.serving()
    before = await _read(broker, serving)
    await asyncio.sleep(WATCHED_SECONDS)
    now = await _read(broker, serving)
    return [row for pair in zip(before, now, strict=True) for row in rates_between(*pair)]


async def _read(broker: Broker, acceptors: list[int]) -> list[Facts]:
    return list(await asyncio.gather(*(broker.ask("acceptor", index, "publishes") for index in acceptors)))
