"""The HTTP servers of the console process: uvicorn's protocol, accepted and bounded here."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from console.certificate import ServedCertificate
from console.http.connection import Connection
from console.http.crowd import Crowd
from penstock.node.logs import get_logger
from penstock.settings.http import HttpSettings

log = get_logger()

HEADERS_MOST = 64 * 1024
"""Bytes of the head of a request."""
ACCEPTED_AT_ONCE = 32
"""Connections that are accepted before other work of the process goes on."""
HANDSHAKE_SECONDS = 10.0
GOODBYE_SECONDS = 5.0
"""Time for the end of a session of TLS."""
CLOSE_SECONDS = 1.0
"""Time for requests to be answered when the process ends."""
RETRY_SECONDS = 1.0
EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class HttpServer:
    """One application on one socket, for so many connections at once."""

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        descriptor: int,
        connections: int,
        turns: asyncio.Lock,
        certificate: ServedCertificate | None = None,
        kind: Callable[[uvicorn.Config, ServerState, Crowd, asyncio.Lock], Connection] = Connection,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._kind = kind
        self._turns = turns
        self._certificate = certificate
        self._crowd = Crowd(connections, settings.idle_seconds)
        self._connections = connections
        self._arriving: set[asyncio.Task[None]] = set()
        self._refused = 0
        self._retry: asyncio.TimerHandle | None = None
        self._state = ServerState()
        self._config = uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=max(int(settings.idle_seconds), 1),
            h11_max_incomplete_event_size=HEADERS_MOST,
        )
        self._config.load()

    def start(self) -> None:
        """Serve."""
        self.tick()
        self._loop.add_reader(self._socket, self._accept)

    def tick(self) -> None:
        """Enforce deadlines, and set the date of answers; called once a second."""
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        self._crowd.tick(self._loop.time())
        if self._refused:
            log.info("HTTP connections refused", connections=self._refused, reason="too many at once")
            self._refused = 0

    async def close(self) -> None:
        """Stop serving. Requests under way are answered, if that takes no longer than a moment."""
        self._loop.remove_reader(self._socket)
        if self._retry is not None:
            self._retry.cancel()
        self._socket.close()
        for task in self._arriving:
            task.cancel()
        for connection in list(self._crowd.present):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=CLOSE_SECONDS)
        for connection in list(self._crowd.present):
            connection.hang_up()
        await asyncio.sleep(0)  # those that write answers see that nobody reads them any more

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if self._certificate is None and len(self._arriving) >= self._connections // 2:
                return  # without a handshake they arrive at once: the next ones wait in the kernel until then
            try:
                accepted, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                log.warning("cannot accept HTTP connections", problem=str(error))
                self._loop.remove_reader(self._socket)
                self._retry = self._loop.call_later(RETRY_SECONDS, self._loop.add_reader, self._socket, self._accept)
                return
            # Half of the places are for clients that have shaken hands.
            if len(self._arriving) > self._connections // 2 or not self._crowd.has_room(len(self._arriving)):
                self._refused += 1
                accepted.close()
                continue
            accepted.setblocking(False)
            task = self._loop.create_task(self._begin(accepted))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    async def _begin(self, accepted: socket.socket) -> None:
        """Begin a connection; the client shakes hands first, if the port speaks TLS."""
        how: dict[str, Any] = {}
        if self._certificate is not None:
            how = {
                "ssl": self._certificate.context,
                "ssl_handshake_timeout": HANDSHAKE_SECONDS,
                "ssl_shutdown_timeout": GOODBYE_SECONDS,
            }
        try:
            await self._loop.connect_accepted_socket(self._made, accepted, **how)
        except OSError as error:  # also of OpenSSL
            log.debug("TLS handshake failed", problem=str(error))

    def _made(self) -> Connection:
        return self._kind(self._config, self._state, self._crowd, self._turns)
