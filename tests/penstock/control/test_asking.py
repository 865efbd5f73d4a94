"""Requests over control sockets from a loop: results, refusals, and processes that do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.control import asking
from penstock.control.asking import ask
from penstock.control.control import Refusal, line

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def asked(path: Path, serve: Serve, **arguments: Any) -> Any:
    """Return the result of a command, which a process serves in its way."""

    async def run() -> Any:
        async with await asyncio.start_unix_server(serve, str(path), limit=1 << 25):
            return await ask(path, "command", arguments)

    return asyncio.run(run())


def answering(answer: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    return serve


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control"


def test_the_result_is_returned(path: Path) -> None:
    large = "x" * (1 << 23)
    assert asked(path, answering(line({"result": [large, "\udcff"]})), name="\udcff" + large) == [large, "\udcff"]


def test_a_refusal_is_raised(path: Path) -> None:
    with pytest.raises(Refusal, match="there is none") as refusal:
        asked(path, answering(line({"error": "there is none", "kind": "not_found"})))
    assert refusal.value.kind == "not_found"


@pytest.mark.parametrize("answer", [b"", b'{"result": 1'])
def test_a_process_that_ends_is_an_error_of_the_system(path: Path, answer: bytes) -> None:
    with pytest.raises(ConnectionAbortedError, match="ended before it had answered"):
        asked(path, answering(answer))


def test_an_answer_that_is_too_large_is_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_MOST", 1000)
    with pytest.raises(OSError, match="larger than 1000 bytes"):
        asked(path, answering(line({"result": "x" * 5000})))


def test_no_answer_in_time_is_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "CALL_SECONDS", 0.05)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    with pytest.raises(OSError):  # noqa: PT011  TimeoutError has no text
        asked(path, silent)


def test_a_process_that_is_not_there_is_one(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(ask(path, "command", {}))
