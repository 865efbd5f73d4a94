"""The header by which a proxy says whose connection it passes on (HAProxy's PROXY protocol, versions 1 and 2)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

HEADER_MOST = 4096
"""Bytes of a header at most; those that proxies send are far shorter."""
SIGNATURE_1 = b"PROXY "
LINE_MOST = 107
"""Bytes of the line of version 1 at most, with its end."""
SIGNATURE_2 = b"\r\n\r\n\x00\r\nQUIT\n"
FIXED_2 = struct.Struct(">12sBBH")
LOCAL, PROXY = 0x20, 0x21
"""Version 2 with its commands: the connection is the proxy's own (a health check), or passed on."""
TCP4, TCP6 = 0x11, 0x21
ADDRESSES = {TCP4: (struct.Struct(">4s4sHH"), IPv4Address), TCP6: (struct.Struct(">16s16sHH"), IPv6Address)}
FAMILIES_1 = {b"TCP4": IPv4Address, b"TCP6": IPv6Address}


class NoProxyHeader(Exception):
    """The bytes are no header; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """A header of `size` bytes, with the client's host and port; None where the proxy connects for itself, or does not
    say for whom.
    """

    size: int
    client: tuple[str, int] | None


def parse(data: bytes) -> ProxyHeader | None:
    """Return the header at the beginning of bytes; None if it is not complete. NoProxyHeader if there is none."""
    if data.startswith(SIGNATURE_2):
        return _parse_2(data)
    if data.startswith(SIGNATURE_1):
        return _parse_1(data)
    if SIGNATURE_1.startswith(data) or SIGNATURE_2.startswith(data):
        return None
    raise NoProxyHeader("there is no PROXY header")


def _parse_1(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, LINE_MOST)
    if end < 0:
        if len(data) >= LINE_MOST:
            raise NoProxyHeader(f"the line of the PROXY header has no end within {LINE_MOST} bytes")
        return None
    words = data[:end].split(b" ")
    if words[1] == b"UNKNOWN":
        return ProxyHeader(end + 2, None)
    kind = FAMILIES_1.get(words[1])
    if kind is None or len(words) != 6:
        raise NoProxyHeader("the line of the PROXY header cannot be read")
    try:
        host = ip_address(words[2].decode("ascii"))
        port = int(words[4]) if words[4].isdigit() else -1
    except ValueError:
        host, port = None, -1
    if not isinstance(host, kind) or not 0 <= port < 2**16:
        raise NoProxyHeader("the PROXY header has no valid address")
    return ProxyHeader(end + 2, (str(host), port))


def _parse_2(data: bytes) -> ProxyHeader | None:
    if len(data) < FIXED_2.size:
        return None
    _, command, family, length = FIXED_2.unpack_from(data)
    size = FIXED_2.size + length
    if size > HEADER_MOST:
        raise NoProxyHeader(f"the PROXY header has {size} bytes, {HEADER_MOST} at most are read")
    if command not in (LOCAL, PROXY):
        raise NoProxyHeader(f"the PROXY header has the version and command {command:#x}")
    if len(data) < size:
        return None
    if command == LOCAL or family not in ADDRESSES:
        return ProxyHeader(size, None)
    layout, kind = ADDRESSES[family]
    if length < layout.size:
        raise NoProxyHeader("the PROXY header is too short for its addresses")
    host, _, port, _ = layout.unpack_from(data, FIXED_2.size)
    return ProxyHeader(size, (str(kind(host)), port))
