"""Calls of HTTP servers: bounded in time and size, and errors that repeat no secret."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest

from acceptor.logins.web import ANSWER_MOST, Answer, Web, WebError

SECRET = "planted-secret"


@contextmanager
def server(*replies: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve one reply a connection, and yield the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        open_ones: list[socket.socket] = []

        def serve() -> None:
            for reply in replies:
                connection, _ = listener.accept()
                open_ones.append(connection)
                connection.recv(65536)
                with suppress(OSError):  # the client has given up
                    reply(connection)

        thread = Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        thread.join()
        for each in open_ones:
            each.close()


def ok(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nallow")


def hangs_up(connection: socket.socket) -> None:
    connection.close()


def is_silent(connection: socket.socket) -> None:
    """Say nothing."""


def is_slow(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        connection.sendall(b"x")
        Event().wait(0.01)


def is_endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(ANSWER_MOST // 65536 + 2):
        connection.sendall(bytes(65536))


def redirects(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")


def is_no_server(connection: socket.socket) -> None:
    connection.sendall(b"AMQP\0\0\x09\x01")
    connection.close()


def test_a_call_brings_status_and_body() -> None:
    with server(ok) as url:
        assert Web(None, 5).call(url, fields={"a": "b c"}) == Answer(200, b"allow")


def test_a_connection_that_the_server_has_closed_is_made_anew() -> None:
    with server(hangs_up, ok) as url:
        assert Web(None, 5).call(url, "POST", {"a": "b"}) == Answer(200, b"allow")


def test_redirections_are_not_followed() -> None:
    with server(redirects) as url:
        assert Web(None, 5).call(url).status == 302


@pytest.mark.parametrize(
    ("replies", "timeout", "problem"),
    [
        ([is_silent], 0.2, "timed out"),
        ([is_slow], 0.2, "in time"),
        ([is_endless], 60, "bytes"),
        ([hangs_up, hangs_up], 60, "does not answer"),
        ([is_no_server, is_no_server], 60, "does not answer"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_server_that_gives_no_answer_is_named_and_the_secret_is_not(
    replies: list[Callable[[socket.socket], None]], timeout: float, problem: str, method: str
) -> None:
    with server(*replies) as url, pytest.raises(WebError, match=problem) as failed:
        Web(None, timeout).call(url, method, {"password": SECRET})
    assert "127.0.0.1" in str(failed.value) and SECRET not in str(failed.value)


def test_nobody_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(WebError, match=f"127.0.0.1:{port} does not answer") as failed:
        Web(None, 5).call(f"http://127.0.0.1:{port}/", fields={"password": SECRET})
    assert SECRET not in str(failed.value)
