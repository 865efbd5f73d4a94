"""What the address of a client's host says: whom it counts as, and whether it is this machine."""

from __future__ import annotations

import ipaddress


def address_of(host: str) -> str:
    """Whom a host counts as: of IPv6 its network of 64 bits, which one machine may have for itself."""
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
    return host == "::1" or host.startswith(("127.", "::ffff:127."))
