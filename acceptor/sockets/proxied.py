"""A socket of a listener that takes PROXY headers: it reads one, then hands over to the protocol of the listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol

from acceptor.sockets.client_protocol import peer_of
from acceptor.sockets.proxy_header import HEADER_MOST, NoProxyHeader, parse
from penstock.node.logs import get_logger
from penstock.settings.values import Network

if TYPE_CHECKING:
    from acceptor.sockets.arrivals import Arrivals
    from acceptor.sockets.client_protocol import ClientProtocol
    from acceptor.sockets.sockets import Sockets

log = get_logger()


class Follower(Protocol):
    """The protocol of a client, whose address is known before its transport is."""

    address: tuple[str, int] | None

    def connection_made(self, transport: Any) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...


def is_trusted(host: str, networks: tuple[Network, ...]) -> bool:
    """Whether a host is in one of the networks."""
    address = ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None) or address
    return any(mapped in network for network in networks)


class ProxiedProtocol(asyncio.BufferedProtocol):
    """Reads the header of one connection. Only `trusted` networks may send one, and everybody else is hung up on."""

    def __init__(
        self,
        sockets: Sockets[ClientProtocol],
        arrivals: Arrivals,
        listener: str,
        trusted: tuple[Network, ...],
        make: Callable[[], Follower],
    ) -> None:
        self.sockets = sockets
        self.arrivals = arrivals
        self.listener = listener
        self.trusted = trusted
        self.make = make
        self.transport: Any = None
        self.peer: tuple[str, int] = ("", 0)
        self.buffer = bytearray(HEADER_MOST)
        self.size = 0

    def connection_made(self, transport: Any) -> None:
        """Wait for the header, if the peer may send one."""
        self.transport = transport
        self.peer = peer_of(transport)
        if not self.sockets.have_room_for(f"{self.peer[0]}:{self.peer[1]}"):
            transport.abort()
        elif not is_trusted(self.peer[0], self.trusted):
            self.refuse("it is none of the proxies in proxy_protocol")
        else:
            self.arrivals.arrived(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the rest of the buffer. It always has room: a header that fills it is complete, or none."""
        return memoryview(self.buffer)[self.size :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take a part of the header; once it is complete, hand over with what follows it."""
        self.size += nbytes
        try:
            header = parse(bytes(self.buffer[: self.size]))
        except NoProxyHeader as error:
            self.refuse(str(error))
            return
        if header is None:
            return
        self.arrivals.left(self)
        follower = self.make()
        follower.address = header.client or self.peer
        self.transport.set_protocol(follower)
        follower.connection_made(self.transport)
        rest = self.buffer[header.size : self.size]
        while rest and not self.transport.is_closing():
            buffer = follower.get_buffer(len(rest))
            count = min(len(rest), len(buffer))
            buffer[:count] = rest[:count]
            del rest[:count]
            follower.buffer_updated(count)

    def refuse(self, why: str) -> None:
        """Log a reason, and hang up."""
        log.warning("connection refused", peer=f"{self.peer[0]}:{self.peer[1]}", listener=self.listener, reason=why)
        self.end()

    def late(self) -> None:
        """Hang up, as the time is over."""
        self.refuse("no PROXY header came in time")

    def end(self) -> None:
        """Hang up."""
        self.arrivals.left(self)
        self.transport.abort()

    def eof_received(self) -> bool:
        """Have the transport close once the peer has closed its side."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the closed socket."""
        self.arrivals.left(self)
