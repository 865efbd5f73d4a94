"""Requests and answers over a control socket, as seen by the program that asks."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.control import Refusal, call, line, parse_request
from tests.waiting import PATIENCE

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[list[bytes]]:
    """Play a node that gives one answer and hangs up; yield the list of requests that it receives."""
    requests: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as threads:
        listener.settimeout(PATIENCE)
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection = listener.accept()[0]
            with connection, connection.makefile("rb") as lines:
                requests.append(lines.readline())
                connection.sendall(answer)

        served = threads.submit(serve)
        yield requests
        served.result(PATIENCE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control"


@given(st.text(), st.dictionaries(st.text(), json_values, max_size=4))
def test_a_request_is_one_line_that_is_read_back(command: str, arguments: dict[str, object]) -> None:
    sent = line({"command": command, "arguments": arguments})
    assert sent.count(b"\n") == 1 and sent.endswith(b"\n")
    assert parse_request(sent) == (command, arguments)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "the request is not JSON"),
        (b"\xff", "the request is not JSON"),
        (b"[" * 100_000, "the request is not JSON"),
        (b"[]", 'the request is not {"command": …, "arguments": {…}}'),
        (b'{"command": "x"}', 'the request is not {"command": …, "arguments": {…}}'),
        (b'{"command": "x", "arguments": {"name": ["\\uD800"]}}', "the request has text in it that is not Unicode"),
        (b'{"command": "x", "arguments": []}', 'the request is not {"command": …, "arguments": {…}}'),
    ],
)
def test_what_is_no_request_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_request(data)
    assert (str(refused.value), refused.value.kind) == (text, "invalid")


def test_a_call_returns_the_result(path: Path) -> None:
    with answering(path, b'{"result": {"depth": 5}}\n') as requests:
        assert call(path, "show", {"queue": "q\udcff"}) == {"depth": 5}
    assert parse_request(requests[0]) == ("show", {"queue": "q\udcff"})


def test_a_call_raises_the_refusal(path: Path) -> None:
    with answering(path, b'{"error": "no such queue", "kind": "not_found"}\n'), pytest.raises(Refusal) as refused:
        call(path, "show", {})
    assert (str(refused.value), refused.value.kind) == ("no such queue", "not_found")


@pytest.mark.parametrize("answer", [b"", b'{"result": 1}'])
def test_an_answer_that_is_cut_short_is_none(path: Path, answer: bytes) -> None:
    """Even an answer that looks whole: a longer one may begin with the same bytes."""
    with answering(path, answer), pytest.raises(ConnectionAbortedError, match="the node ended before it had answered"):
        call(path, "show", {})


def test_a_node_that_does_not_run_is_an_os_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        call(path, "show", {})
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(ConnectionRefusedError):
        call(path, "show", {})
