"""Arguments that only the router has."""

from __future__ import annotations

import asyncio
from typing import Any

from console.foreign import ForeignArguments
from router.model.records import Exchange, Vhost
from router.model.topology import Topology

EXCHANGE = Exchange("/", "x", "topic", True, False, False, {"alternate-exchange": "y"})


class Router:
    """Answers the command, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.away = False

    async def ask(self, command: str) -> dict[str, Any]:
        assert command == "foreign_arguments"
        if self.away:
            raise ConnectionRefusedError("the router is away")
        self.asked += 1
        return {"exchanges": [["/", "x", {"x-own": self.asked}]], "queues": []}


def test_the_router_is_asked_again_once_the_topology_has_changed() -> None:
    router, topology = Router(), Topology(1, [Vhost("/").change(), EXCHANGE.change()])
    foreign = ForeignArguments(topology, router.ask)

    async def refreshed() -> Any:
        await asyncio.gather(*(foreign.refresh() for _ in range(3)))
        return foreign.all_of(EXCHANGE)

    assert foreign.all_of(EXCHANGE) == EXCHANGE.arguments
    for _ in range(2):
        assert asyncio.run(refreshed()) == {"alternate-exchange": "y", "x-own": 1}
    topology.follow(2, [])
    router.away = True
    assert asyncio.run(refreshed())["x-own"] == 1
    router.away = False
    assert asyncio.run(refreshed())["x-own"] == 2
