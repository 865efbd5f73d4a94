"""Addresses of clients' hosts: which host counts as which address, and which is this machine."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def address_of(host: str) -> str:
    """Return the address that a host is counted under: for IPv6 its /64 network, all of which one machine may own."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    return host == "::1" or host.startswith(("127.", "::ffff:127."))
