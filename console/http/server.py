"""The HTTP servers of the console process: uvicorn, on sockets that the supervisor has bound.

A connection beyond the bound is closed as it arrives. One that takes too long to send a request is closed as well:
uvicorn itself has a time limit only between requests.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.settings.http import HttpSettings

HEADERS_MOST = 64 * 1024
"""Bytes of the head of a request."""
BACKLOG = 256
CLOSE_SECONDS = 1
TICK_SECONDS = 1.0


def protocol(settings: HttpSettings) -> type[H11Protocol]:
    """Return the protocol of connections, with the bounds of the settings."""

    class BoundedProtocol(H11Protocol):
        """A connection that is refused beyond the bound, and closed when it is idle or its request takes too long."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > settings.connections:
                transport.abort()
            else:
                self._timer = self.loop.call_later(settings.idle_seconds, self._check)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def _check(self) -> None:
            cycle = self.cycle
            waits_for_client = cycle is None or cycle.response_complete or cycle.more_body
            if waits_for_client and self.transport is not None:
                self.transport.abort()
            else:
                self._timer = self.loop.call_later(settings.idle_seconds, self._check)

    return BoundedProtocol


class HttpServer:
    """One application on one socket."""

    def __init__(self, app: ASGIApp, settings: HttpSettings, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        certificate, key = settings.pair or (None, None)
        config = uvicorn.Config(
            app,
            http=protocol(settings),
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=True,
            backlog=BACKLOG,
            timeout_keep_alive=max(int(settings.idle_seconds), 1),
            timeout_graceful_shutdown=CLOSE_SECONDS,
            h11_max_incomplete_event_size=HEADERS_MOST,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve, in the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._server.serve([self._socket]))

    async def close(self) -> None:
        """Stop serving."""
        self._server.stopping.set()
        if self._task is not None:
            await self._task


class _Server(uvicorn.Server):
    """A server that leaves signals to the process, and wakes up once a second: uvicorn's own does ten times."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        while not self.stopping.is_set():
            await self.on_tick(0)  # the date of answers
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), TICK_SECONDS)
