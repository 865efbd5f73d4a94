"""What every request passes first: paths as they were sent, bounded bodies, and headers that guard browsers.

Paths are not decoded: a name in them may have a slash in it (`console.http.segments`). Bodies are JSON whatever they
are declared to be, as in RabbitMQ: curl declares its `-d` a form.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.http.errors import HttpError

BODY_MOST = 16 * 1024 * 1024
"""Largest body of a request in bytes: definitions are imported as one."""
SMALL = 64 * 1024
"""Bytes of a body that are taken from anybody; users alone may send more."""
BODIES_MOST = 4 * BODY_MOST
"""Bytes of all larger bodies at once."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
Admit = Callable[[Request], Awaitable[object]]


class Shield:
    """The application behind it gets no other requests. `admit` raises HttpError unless a request comes from a user."""

    def __init__(self, app: ASGIApp, admit: Admit) -> None:
        self._app = app
        self._admit = admit
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["path"] = _path(scope["raw_path"])
        MutableHeaders(scope=scope)["content-type"] = "application/json"
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the server leaves the body out
        body, answering = _Body(scope), False

        async def receive_bounded() -> Message:
            if answering:  # it is asked whether the client is still there
                return await receive()
            body.check()
            message = await receive()
            body.received += len(message.get("body", b""))
            body.check()
            if body.received > SMALL:
                await self._hold(body, scope)
            return message

        async def send_guarded(message: Message) -> None:
            nonlocal answering
            if message["type"] == "http.response.start":
                answering = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            await self._app(scope, receive_bounded, send_guarded)
        finally:
            self._held -= body.held

    async def _hold(self, body: _Body, scope: Scope) -> None:
        """Hold a large body, if a user sends it and there is room."""
        if body.held == 0:
            await self._admit(Request(scope))
        self._held += body.received - body.held
        body.held = body.received
        if self._held > BODIES_MOST:
            raise HttpError(503, "too many large requests at once; try again")


class _Body:
    """The body of one request: bytes that were received, and those held beyond what anybody may send."""

    def __init__(self, scope: Scope) -> None:
        length: Any = Headers(scope=scope).get("content-length", "0")
        self._length = int(length) if length.isdigit() else 0
        self.received = 0
        self.held = 0

    def check(self) -> None:
        """Raise HttpError if it is too large."""
        if max(self._length, self.received) > BODY_MOST:
            raise HttpError(413, f"the body is larger than {BODY_MOST} bytes")


def _path(raw: bytes) -> str:
    """Return a path as it was sent, without a slash at its end, which RabbitMQ ignores too."""
    path = raw.decode("ascii", "replace")
    return path.removesuffix("/") or "/"
