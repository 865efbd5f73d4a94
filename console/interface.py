"""The HTTP interface of the console process: the servers of its ports, and what is done for them once a second."""

from __future__ import annotations

from collections.abc import Sequence

from console.broker import Broker
from console.http.app import application, metrics_application
from console.http.server import HttpServer
from penstock.control.audit import Audit
from penstock.memory.gauges import Gauges
from penstock.node.node import Node
from router.model.topology import Topology

APPLICATIONS = {"api": application, "metrics": metrics_application}


class Interface:
    """The servers of one console process, on sockets that the supervisor has bound, in the order of `node.http`."""

    def __init__(self, node: Node, gauges: Gauges, topology: Topology, descriptors: Sequence[int]) -> None:
        self.broker = Broker(node, gauges, topology, Audit(node.settings.data, "console", 0))
        self._servers = [
            HttpServer(APPLICATIONS[name](self.broker), node.settings.http, descriptor)
            for name, descriptor in zip(node.http, descriptors, strict=True)
        ]

    def start(self) -> None:
        """Serve, in the running loop."""
        for server in self._servers:
            server.start()

    def tick(self) -> None:
        """Do what is due once a second."""
        self.broker.sampler.tick()

    async def close(self) -> None:
        """Stop serving."""
        for server in self._servers:
            await server.close()
