"""Ports for programs that must be told one and cannot take port 0."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOWEST = 10_000
CLIENTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a free port of 127.0.0.1 below the range that the system assigns: no other process gets it by chance
    meanwhile.
    """
    highest = int(CLIENTS.read_text().split()[0])
    chance = random.SystemRandom()  # workers that were given the same seed must not meet
    while True:
        port = chance.randrange(LOWEST, highest)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


@contextmanager
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 that refuses connections: it is bound, and no process listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
