"""How listeners receive a client: with connection.start, with a certificate, or not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ops.greeting import PROTOCOL_HEADER, START, greets


def listener(address: str, **facts: Any) -> dict[str, Any]:
    return {"address": address, "tls": False, "client_certificates": "none", **facts}


@contextmanager
def receiving(receive: Callable[[socket.socket], object]) -> Iterator[str]:
    """Yield the address of a server that receives one client."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as client:
                receive(client)

        other = threading.Thread(target=serve)
        other.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        other.join()


def test_a_client_is_greeted_with_connection_start() -> None:
    def greet(client: socket.socket) -> None:
        assert client.recv(len(PROTOCOL_HEADER), socket.MSG_WAITALL) == PROTOCOL_HEADER
        client.sendall(START)

    with receiving(greet) as address:
        assert greets(listener(address)) == (True, f"{address} greets clients")


def test_one_that_hangs_up_or_is_not_there_greets_nobody() -> None:
    with receiving(lambda client: client.recv(len(PROTOCOL_HEADER))) as address:
        assert greets(listener(address)) == (False, f"{address} does not greet clients")
    passed, text = greets(listener(address))
    assert not passed and text.startswith(f"{address} does not answer: ")


def test_one_that_should_have_tls_and_has_not_does_not_answer() -> None:
    with receiving(lambda client: client.sendall(b"AMQP\0\0\x09\x01")) as address:
        passed, text = greets(listener(address, tls=True))
    assert not passed and text.startswith(f"{address} with TLS does not answer: ")
