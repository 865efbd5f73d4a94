"""PROXY headers, as proxies send them."""

from __future__ import annotations

import struct
from ipaddress import ip_address

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def version_1(host: str, port: int) -> bytes:
    """Return the line of version 1."""
    family = f"TCP{ip_address(host).version}"
    other = "127.0.0.1" if family == "TCP4" else "::1"
    return f"PROXY {family} {host} {other} {port} 5671\r\n".encode()


def version_2(host: str, port: int, more: bytes = b"") -> bytes:
    """Return the header of version 2, with further fields."""
    address = ip_address(host)
    other = ip_address("127.0.0.1" if address.version == 4 else "::1")
    addresses = address.packed + other.packed + struct.pack(">HH", port, 5671) + more
    family = 0x11 if address.version == 4 else 0x21
    return SIGNATURE + struct.pack(">BBH", 0x21, family, len(addresses)) + addresses


def local() -> bytes:
    """Return the header of version 2 with which a proxy checks the health of a server."""
    return SIGNATURE + struct.pack(">BBH", 0x20, 0, 0)
