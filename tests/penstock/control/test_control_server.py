"""The control socket: permission to use it, bounds, and answers to unreadable requests."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.control import control
from penstock.control import control_server as server_end
from penstock.control.audit import Administrator
from penstock.control.control_server import ControlServer
from tests.waiting import PATIENCE


def echo(command: str, arguments: dict[str, Any], answered: Callable[[dict[str, Any]], None]) -> None:
    if command == "fail":
        raise KeyError("a bug")
    answered({"result": [command, arguments]})


def served(path: Path, use: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Return the result of `use`, run while a loop serves the socket."""

    async def run() -> Any:
        server = ControlServer(path, echo)
        await server.start()
        try:
            return await asyncio.wait_for(use(), PATIENCE)
        finally:
            await server.close()

    return asyncio.run(run())


async def said(path: Path, data: bytes) -> list[Any]:
    """Return all answers to these bytes."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(data)
    writer.write_eof()
    answers = await reader.read()
    writer.close()
    return [json.loads(line) for line in answers.splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control"


def test_a_call(path: Path) -> None:
    arguments = {"name": "n\udcff", "list": [1, None]}
    answer = served(path, lambda: asyncio.to_thread(control.call, path, "do", arguments))
    assert answer == ["do", arguments]
    assert not path.exists()


def test_a_command_that_fails_is_answered_and_the_next_one_carried_out(path: Path) -> None:
    data = b"".join(b'{"command": "%s", "arguments": {}}\n' % name for name in (b"fail", b"do"))
    answers = served(path, lambda: said(path, data))
    assert answers == [{"error": "fail failed, the log has more", "kind": "failed"}, {"result": ["do", {}]}]


def test_only_the_owner_may_open_it(path: Path) -> None:
    found = served(path, lambda: asyncio.to_thread(lambda: path.stat().st_mode))
    assert stat.S_ISSOCK(found) and stat.S_IMODE(found) == 0o600


def test_the_connection_of_another_user_of_the_machine_is_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's answer is faked to name another user, as the tests have only one."""
    monkeypatch.setattr(Administrator, "at", lambda _connection: Administrator(4711, 1))
    assert served(path, lambda: said(path, b"")) == []


def test_requests_are_answered_in_order(path: Path) -> None:
    lines = b"".join(control.line({"command": str(i), "arguments": {}}) for i in range(50))
    assert [answer["result"][0] for answer in served(path, lambda: said(path, lines))] == [str(i) for i in range(50)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xff\n", "the request is not JSON"),
        (b"[" * 100_000 + b"\n", "the request is not JSON"),
        (b"{}\n", 'the request is not {"command": …, "arguments": {…}}'),
        (b'{"command": 1, "arguments": {}}\n', 'the request is not {"command": …, "arguments": {…}}'),
        (b'{"command": "a", "arguments": []}\n', 'the request is not {"command": …, "arguments": {…}}'),
        (b"null", 'the request is not {"command": …, "arguments": {…}}'),
    ],
)
def test_what_cannot_be_read_is_said(path: Path, data: bytes, text: str) -> None:
    assert served(path, lambda: said(path, data)) == [{"error": text, "kind": "invalid"}]


def test_a_request_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_end, "LINE_MAX", 1000)
    answers = served(path, lambda: said(path, b"x" * 5000 + b"\n"))
    assert answers == [{"error": "the request is longer than 1000 bytes", "kind": "invalid"}]


def test_connections_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_end, "CONNECTIONS_MAX", 1)

    async def use() -> list[Any]:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(control.line({"command": "first", "arguments": {}}))
        await reader.readline()
        second = await said(path, b"")
        writer.close()
        return second

    assert served(path, use) == [{"error": "too many commands at once", "kind": "failed"}]


def test_a_socket_left_behind_is_replaced(path: Path) -> None:
    path.write_text("")
    assert served(path, lambda: asyncio.to_thread(control.call, path, "do", {})) == ["do", {}]


def test_a_node_that_ends_before_it_answers(path: Path) -> None:
    async def run() -> None:
        server = await asyncio.start_unix_server(lambda _, writer: writer.close(), str(path))
        try:
            await asyncio.to_thread(control.call, path, "do", {})
        finally:
            server.close()

    with pytest.raises(OSError, match=r"ended before|Broken pipe|reset"):
        asyncio.run(run())
