"""Ports for programs that need a number and cannot bind port 0."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOWEST = 10_000
CLIENTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a free port of 127.0.0.1 below the range that the system assigns from, so that no other process gets it
    by chance.
    """
    highest = int(CLIENTS.read_text().split()[0])
    chance = random.SystemRandom()  # workers with the same seed must not collide
    while True:
        port = chance.randrange(LOWEST, highest)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


@contextmanager
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 that refuses connections: it is bound, and nothing listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
