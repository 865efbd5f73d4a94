"""A client's connection: uvicorn's, whose answers are written as the client reads them.

    waiting for a request ──▶ answering ──▶ writing the answer ──▶ waiting for a request

uvicorn itself would have written a whole answer into memory, however slowly it is read, and would begin the next one.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.types import Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from console.http.crowd import Crowd

ANSWERS = (h11.IDLE, h11.SEND_RESPONSE)
"""States in which an answer may begin."""
PART = 64 * 1024
"""Bytes of an answer that are written at once."""


class Connection(H11Protocol):
    """One connection. `turns` is shared: requests of all connections begin one after the other, with the other work of
    the process between two.
    """

    def __init__(self, config: Config, state: ServerState, crowd: Crowd, turns: asyncio.Lock) -> None:
        super().__init__(config, state, {})
        self._crowd = crowd
        self._turns = turns
        self._application = self.app
        self.app = self._answer
        self.stands_since: float | None = None

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has a request to send, in whole or its rest."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._crowd.present.add(self)
        self._crowd.waits(self, self.loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.leave(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def on_response_complete(self) -> None:
        self._crowd.waits(self, self.loop.time())
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer input that is no HTTP; hang up if it comes while another answer is due."""
        if self.waits_for_client and self.conn.our_state in ANSWERS:
            super().send_400_response(msg)
        else:
            self.hang_up()

    def hang_up(self) -> None:
        """End the connection now. What it has not written is lost."""
        self._crowd.leave(self)
        self.transport.abort()
        if self.cycle is not None:
            self.cycle.disconnected = True

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.stands_since = self.loop.time()
        await self.flow.drain()  # of the answer before
        self.stands_since = None
        async with self._turns:
            await asyncio.sleep(0)

        async def send_in_parts(message: Message) -> None:
            await self._send(message, send)

        await self._application(scope, receive, send_in_parts)

    async def _send(self, message: Message, send: Send) -> None:
        """Send a message of ASGI; a large body in parts, each once the client has read most of those before."""
        body = message.get("body", b"")
        more = message.get("more_body", False)
        try:
            for begin in range(0, len(body) - PART, PART):
                if self.transport.is_closing():
                    return
                self.stands_since = self.loop.time()
                self._crowd.leaves_unread(self, len(body) - begin)
                await send({**message, "body": body[begin : begin + PART], "more_body": True})
            rest = (len(body) - 1) // PART * PART if body else 0
            self.stands_since = self.loop.time()
            await send({**message, **({"body": body[rest:], "more_body": more} if body else {})})
        finally:
            self.stands_since = None
            self._crowd.leaves_unread(self, 0)
