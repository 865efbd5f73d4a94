"""Sessions of the console: login, logout, and who one is."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from console.http.access import Called, checked, is_own, set_cookie, token_of
from console.http.answers import answer, nothing
from console.http.caller import ALLOWED
from console.http.errors import HttpError

router = APIRouter(prefix="/api", tags=["login"])


class Credentials(BaseModel):
    """A user and a password."""

    model_config = ConfigDict(extra="forbid")

    username: str = Field(min_length=1, max_length=255)
    password: str = Field(max_length=65536)


@router.post("/session")
async def begin(request: Request, given: Credentials) -> Response:
    """Log in: begins a session, whose token is in a cookie."""
    if not is_own(request):
        raise HttpError(403, "the request comes from another site")
    login = await checked(request, given.username, given.password, challenges=False)
    if not ALLOWED.intersection(login.tags):
        raise HttpError(401, "Not management user")
    response = answer({"name": login.user, "tags": login.tags})
    set_cookie(request, response, request.app.state.sessions.begin(login))
    return response


@router.delete("/session")
async def end(request: Request, _caller: Called) -> Response:
    """Log out."""
    request.app.state.sessions.end(token_of(request))
    response = nothing()
    set_cookie(request, response, "")
    return response


@router.get("/whoami")
async def whoami(caller: Called) -> Response:
    """The user of the request, and its tags."""
    return answer({"name": caller.user, "tags": caller.tags, "is_internal_user": caller.internal})
