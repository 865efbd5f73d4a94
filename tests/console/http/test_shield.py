"""What requests pass first: bounded bodies, for users only beyond a size, and headers that guard browsers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from console.http.errors import HttpError
from console.http.shield import BODIES_MOST, BODY_MOST, HEADERS, SMALL, Shield

PART = 1024 * 1024


def scope(method: str = "POST", path: bytes = b"/", **headers: str) -> Scope:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "raw_path": path, "path": "decoded", "headers": given}


class Scene:
    """An application that takes whole bodies, behind a shield."""

    def __init__(self, users: bool = True) -> None:
        self.users = users
        self.asked = 0
        self.seen: list[Scope] = []
        self.ended = asyncio.Event()
        self.shield = Shield(self.application, self.admit)

    async def admit(self, _request: Request) -> None:
        self.asked += 1
        if not self.users:
            raise HttpError(401, "Login failed")

    async def application(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(scope)
        while (await receive()).get("more_body"):
            pass
        await self.ended.wait()
        await Response("x")(scope, receive, send)

    async def send(self, size: int, scope: Scope) -> list[Message]:
        """Send a body; return the messages of the answer."""
        left, sent = size, []

        async def receive() -> Message:
            nonlocal left
            part, left = min(left, PART), max(left - PART, 0)
            await asyncio.sleep(0)
            return {"type": "http.request", "body": bytes(part), "more_body": left > 0}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.shield(scope, receive, send)
        return sent


def run(scene: Scene, size: int, **headers: str) -> Any:
    scene.ended.set()
    return asyncio.run(scene.send(size, scope(**headers)))


def test_anybody_may_send_a_small_body_and_users_a_larger_one() -> None:
    nobody, user = Scene(users=False), Scene()
    assert run(nobody, SMALL) and nobody.asked == 0
    with pytest.raises(HttpError, match="Login failed"):
        run(nobody, SMALL + 1)
    assert run(user, BODY_MOST) and user.asked == 1
    with pytest.raises(HttpError, match="larger than"):
        run(user, BODY_MOST + 1)
    with pytest.raises(HttpError, match="larger than"):
        run(user, 0, content_length=str(BODY_MOST + 1))
    assert run(user, 0, content_length="nonsense")


def test_large_bodies_share_their_room_and_give_it_back() -> None:
    scene = Scene()

    async def many() -> list[Any]:
        count = BODIES_MOST // BODY_MOST
        requests = [asyncio.create_task(scene.send(BODY_MOST, scope())) for _ in range(count + 1)]
        await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        scene.ended.set()
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
        assert await scene.send(BODY_MOST, scope())
        return outcomes

    refused = [each for each in asyncio.run(many()) if isinstance(each, HttpError)]
    assert refused and {each.status for each in refused} == {503}


def test_paths_stay_as_they_were_sent_and_bodies_are_json() -> None:
    scene = Scene()
    scene.ended.set()
    asyncio.run(scene.send(0, scope(path=b"/api/queues/%2F", content_type="application/x-www-form-urlencoded")))
    asyncio.run(scene.send(0, scope(method="HEAD", content_type="text/csv")))
    put, head = scene.seen
    assert (put["path"], put["method"], head["method"]) == ("/api/queues/%2F", "POST", "GET")
    assert (b"content-type", b"application/json") in put["headers"]
    assert (b"content-type", b"application/json") in head["headers"]


def test_answers_have_headers_for_browsers() -> None:
    (start, *_) = run(Scene(), 0)
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    assert HEADERS.items() <= found.items() and found["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"/", "/"),
        (b"/api/queues/%2F/", "/api/queues/%2F"),
        (b"/api/queues//", "/api/queues/"),
        (b"/api/queues/caf%C3%A9", "/api/queues/caf%C3%A9"),
        (b"//", "/"),
    ],
)
def test_paths_stay_encoded_and_lose_a_slash_at_their_end(sent: bytes, expected: str) -> None:
    async def run() -> str:
        scene = Scene()
        scene.ended.set()
        await scene.send(0, scope(path=sent))
        return str(scene.seen[0]["path"])

    assert asyncio.run(run()) == expected
