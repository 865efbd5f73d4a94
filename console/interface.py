"""The HTTP interface of the console process: the servers of its ports and of its Unix socket, and their work of each
second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from console.api.flow.held import with_rates
from console.app import application, metrics_application
from console.broker import Broker
from console.certificate_events import CertificateEvents
from console.http.operator import OperatorConnection
from console.http.server import HttpServer
from console.watch import Watch
from penstock.control.audit import Audit
from penstock.memory.gauges import Gauges
from penstock.node.node import Node
from penstock.process.process import connections_most
from router.model.topology import Topology

OPERATOR_CONNECTIONS = 32


class Interface:
    """The servers of one console process, on sockets that the supervisor has bound: in the order of `node.http`, and
    last the Unix socket of the operator. TlsError if the certificate cannot be used.
    """

    def __init__(self, node: Node, gauges: Gauges, topology: Topology, descriptors: Sequence[int]) -> None:
        settings = node.settings.http
        self.broker = Broker(node, gauges, topology, Audit(node.settings.data, "console", 0))
        self.watch = Watch(self.broker, partial(with_rates, self.broker))
        self._events: CertificateEvents | None = None
        if settings.secured is not None:
            from console.certificate import ServedCertificate  # not at the top: takes a library of 12 MiB

            self.broker.certificate = ServedCertificate(settings.secured)
            self._events = CertificateEvents(self.broker, self.broker.certificate)
        turns = asyncio.Lock()
        files = connections_most() - OPERATOR_CONNECTIONS
        most = min(settings.connections, max(files // len(node.http), 1))
        api = application(self.broker, self.watch)
        self._servers = [
            HttpServer(
                api if name == "api" else metrics_application(self.broker),
                settings,
                descriptor,
                most,
                turns,
                self.broker.certificate,
            )
            for name, descriptor in zip(node.http, descriptors[:-1], strict=True)
        ]
        self._servers.append(
            HttpServer(
                api,
                settings,
                descriptors[-1],
                OPERATOR_CONNECTIONS,
                turns,
                kind=partial(OperatorConnection, self.broker.audit),
            )
        )

    def start(self) -> None:
        """Serve, in the running loop."""
        for server in self._servers:
            server.start()

    def tick(self) -> None:
        """Do what is due once a second."""
        self.broker.tick()
        if self.broker.certificate is not None:
            self.broker.certificate.refresh()
        if self._events is not None:
            self._events.tick()
        for server in self._servers:
            server.tick()

    def reload(self) -> None:
        """Load the certificate again, as an operator asks for it."""
        if self.broker.certificate is not None:
            self.broker.certificate.refresh(asked=True)

    async def close(self) -> None:
        """Stop serving."""
        await self.watch.close()
        await self.broker.rebalancing.close()
        if self._events is not None:
            await self._events.close()
        await asyncio.gather(*(server.close() for server in self._servers))
        self.broker.scraping.close()
