"""The port of the node: proved free, then kept from others while the acceptors come and go."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ops.errors import StartError


@contextmanager
def reserved(host: str, port: int) -> Iterator[int]:
    """Reserve `port` of `host` and yield its number, the real one if `port` is 0. StartError if it cannot be had.

    The reserving socket is bound and never listens, so the kernel gives it no connections. It becomes SO_REUSEPORT only
    once it is bound: a bind with that option succeeds beside any other broker of this user, one without it does not.
    """
    family, address = _resolve(host, port)
    with socket.socket(family, socket.SOCK_STREAM) as holder:
        try:
            _bind(holder, address)
        except OSError as error:
            raise StartError(f"cannot listen on {show(host, port)}: {_reason(error)}") from None
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield holder.getsockname()[1]


def show(host: str, port: int) -> str:
    """HOST:PORT, as an AMQP URL wants it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bind(holder: socket.socket, address: tuple[str, int]) -> None:
    """Bind exclusively; only where that fails is SO_REUSEADDR tried, for connections of the past in TIME_WAIT."""
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
