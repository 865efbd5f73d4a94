"""The port of the node: one socket, bound by the supervisor and inherited by all acceptors, which listen on it.

A new client is served by whichever acceptor accepts it first: no client waits for an acceptor that hangs, and none is
lost with one that ends.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ops.errors import StartError


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket bound to `port` of `host`, or to a free one if `port` is 0. StartError if it cannot be bound.

    Connections are refused until the first acceptor listens on it, and after `refuse`.
    """
    family, address = _resolve(host, port)
    with socket.socket(family, socket.SOCK_STREAM) as port_socket:
        try:
            _bind(port_socket, address)
        except OSError as error:
            raise StartError(f"cannot listen on {show(host, port)}: {_reason(error)}") from None
        yield port_socket


def reuse(port_socket: socket.socket) -> None:
    """Let a node that starts anew bind the port while its old connections, which inherit this, are in TIME_WAIT."""
    port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


def refuse(port_socket: socket.socket) -> None:
    """Stop listening in every process that has the socket (shutdown(2) of a listening socket)."""
    with suppress(OSError):  # no process listened
        port_socket.shutdown(socket.SHUT_RD)


def show(host: str, port: int) -> str:
    """Return HOST:PORT as in an AMQP URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bind(holder: socket.socket, address: tuple[str, int]) -> None:
    """Bind exclusively; only if that fails, try SO_REUSEADDR, because of past connections in TIME_WAIT."""
    try:
        holder.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(address)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)


def _resolve(host: str, port: int) -> tuple[int, tuple[str, int]]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise StartError(f"cannot listen on {show(host, port)}: {error.strerror}") from None
    return family, (str(address[0]), int(address[1]))


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is taken"
    return os.strerror(error.errno) if error.errno else str(error)
