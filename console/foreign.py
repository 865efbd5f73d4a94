"""The arguments of declarations that have no meaning here: replicas of the topology lack them, the router has them.

They are asked for again once the topology has changed. While the router is away the last ones count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from penstock.node.logs import get_logger
from router.model.records import Exchange, Queue
from router.model.topology import Topology

log = get_logger()

Found = dict[tuple[str, str], dict[str, Any]]


class ForeignArguments:
    """The foreign arguments of all exchanges and queues of a node, by vhost and name. `ask` sends the router a
    command.
    """

    def __init__(self, topology: Topology, ask: Callable[[str], Awaitable[Any]]) -> None:
        self._topology = topology
        self._ask = ask
        self._version = -1
        self._turn = asyncio.Lock()
        self._exchanges: Found = {}
        self._queues: Found = {}

    async def refresh(self) -> None:
        """Ask for them, if the topology has changed since the last time."""
        async with self._turn:
            version = self._topology.version
            if version == self._version:
                return
            try:
                found = await self._ask("foreign_arguments")
            except OSError as error:
                log.warning("the router does not answer, arguments may be missing over HTTP", problem=str(error))
                return
            self._exchanges = {(vhost, name): arguments for vhost, name, arguments in found["exchanges"]}
            self._queues = {(vhost, name): arguments for vhost, name, arguments in found["queues"]}
            self._version = version

    def all_of(self, declared: Exchange | Queue) -> Mapping[str, Any]:
        """Return all arguments of an exchange or a queue, as far as they are known."""
        foreign = (self._queues if isinstance(declared, Queue) else self._exchanges).get(
            (declared.vhost, declared.name)
        )
        return declared.arguments if foreign is None else {**declared.arguments, **foreign}
