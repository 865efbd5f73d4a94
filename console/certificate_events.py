"""Events about the certificate of the HTTP interface that expires, which an acceptor publishes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from console.broker import Broker, Facts
from penstock.control.control import Refusal
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from console.certificate import ServedCertificate

log = get_logger()


class CertificateEvents:
    """The events of one certificate. They wait while no acceptor can publish them."""

    def __init__(self, broker: Broker, certificate: ServedCertificate) -> None:
        self._broker = broker
        self._certificate = certificate
        self._waiting: deque[Facts] = deque()
        self._publishing: asyncio.Task[None] | None = None

    def tick(self) -> None:
        """Publish due events; called once a second."""
        self._waiting.extend(self._certificate.expiring())
        if self._waiting and (self._publishing is None or self._publishing.done()):
            self._publishing = asyncio.create_task(self._publish())

    async def close(self) -> None:
        """Publish no more."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.wait([self._publishing])

    async def _publish(self) -> None:
        try:
            while self._waiting:
                await self._broker.command("event", facts=self._waiting[0])
                self._waiting.popleft()
        except (Refusal, OSError) as error:
            log.debug("an event waits", problem=str(error))
