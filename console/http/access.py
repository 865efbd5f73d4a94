"""Logins: each request carries a user and a password (RFC 7617), or the cookie of a session of the console; the
operator of the node needs neither (`console.http.operator`).

A browser sends both with requests that other sites cause, so requests that change something are taken from the
interface's own pages only, and from programs that are no browsers.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from console.broker import Broker, Login
from console.http.caller import ALLOWED, Caller
from console.http.errors import HttpError
from console.http.operator import Operator
from console.http.sessions import LONGEST_SECONDS, Sessions

COOKIE = "penstock"
SECURE_COOKIE = "__Host-penstock"
"""Browsers take a cookie of this name only over TLS, for this host alone."""
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
REFUSAL_SECONDS = 1.0
"""Time before a refused login is answered, as for AMQP."""
CHALLENGE = {"WWW-Authenticate": 'Basic realm="penstock"'}


async def caller(request: Request) -> Caller:
    """Return the user of a request. HttpError if there is none with a right to the interface."""
    if request.method not in SAFE and not is_own(request):
        raise HttpError(403, "the request comes from another site")
    broker: Broker = request.app.state.broker
    if (operator := getattr(request.state, "operator", None)) is not None:
        broker.sampler.wake()
        return Operator.of(broker, operator)
    sessions: Sessions = request.app.state.sessions
    token = token_of(request)
    login = sessions.find(token) if token else None
    if login is None:
        given = _basic(request)
        if given is None:
            raise _login_failed(request)
        login = await checked(request, *given)
    if not ALLOWED.intersection(login.tags):
        raise HttpError(401, "Not management user")
    broker.sampler.wake()
    return Caller(broker, login.user, login.tags, login.internal, host_of(request), login.credentials)


async def nobody(_request: Request) -> None:
    """Take no request for that of a user. HttpError."""
    raise HttpError(401, "there are no logins here")


Called = Annotated[Caller, Depends(caller)]


async def checked(request: Request, name: str, password: str, *, challenges: bool = True) -> Login:
    """Return who logs in by a request. HttpError, after a while, if the login is refused."""
    broker: Broker = request.app.state.broker
    login = await broker.login(name, password, host_of(request))
    if login is None:
        await asyncio.sleep(REFUSAL_SECONDS)
        raise _login_failed(request, challenges=challenges)
    return login


def token_of(request: Request) -> str:
    """Return the token of a request's session; "" if it has none."""
    return request.cookies.get(SECURE_COOKIE if request.url.scheme == "https" else COOKIE, "")


def set_cookie(request: Request, response: Response, token: str) -> None:
    """Have the browser keep the token of a session; "" has it forget it."""
    secure = request.url.scheme == "https"
    response.set_cookie(
        SECURE_COOKIE if secure else COOKIE,
        token,
        max_age=int(LONGEST_SECONDS) if token else 0,
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def host_of(request: Request) -> str:
    """Return the host of a client."""
    return request.client.host if request.client else ""


def _basic(request: Request) -> tuple[str, str] | None:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.partition(":")
    return (name, password) if colon else None


def _login_failed(request: Request, *, challenges: bool = True) -> HttpError:
    """Return the error; without a challenge for a page's own script, or the browser would ask for a password."""
    is_fetched = request.headers.get("sec-fetch-mode", "navigate") != "navigate"
    return HttpError(401, "Login failed", CHALLENGE if challenges and not is_fetched else {})


def is_own(request: Request) -> bool:
    """Whether a request comes from the interface's own pages, or from a program that is no browser."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")
