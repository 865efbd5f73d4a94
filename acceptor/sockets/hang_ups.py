"""Hang-ups of paused sockets, which are not read: their peer has closed or reset them, or bytes have come (epoll(7)).

Events are edge-triggered (EPOLLET): sockets on which nothing happens cost nothing, however many they are.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

EVENTS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET


class HasFile(Protocol):
    """A socket of a client, by its file descriptor."""

    @property
    def fd(self) -> int: ...


P = TypeVar("P", bound=HasFile)


class News(NamedTuple, Generic[P]):
    """An event of a socket: it is dead, its peer has closed its side, or bytes have come."""

    protocol: P
    dead: bool
    closed: bool


class HangUps(Generic[P]):
    """The paused sockets of an acceptor. A socket paused only until the next poll costs no system call."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._new: dict[P, None] = {}
        self._watched: dict[int, P] = {}

    def watch(self, protocol: P) -> None:
        """Watch a socket, from the next poll on."""
        self._new[protocol] = None

    def forget(self, protocol: P, *, closed: bool = False) -> None:
        """Stop watching a socket that is read again, or closed (the kernel forgets it by itself, and its number may be
        another socket's by now).
        """
        self._new.pop(protocol, None)
        if self._watched.get(protocol.fd) is protocol:
            del self._watched[protocol.fd]
            if not closed:
                self._poll.unregister(protocol.fd)

    def poll(self) -> Iterator[News[P]]:
        """Yield the events since the last poll; for a socket watched since then, its state."""
        new, self._new = self._new, {}
        for protocol in new:
            self._watched[protocol.fd] = protocol
            self._poll.register(protocol.fd, EVENTS)
        for fd, event in self._poll.poll(0) if self._watched else ():
            known = self._watched.get(fd)
            if known is not None:
                yield News(known, bool(event & (select.EPOLLERR | select.EPOLLHUP)), bool(event & select.EPOLLRDHUP))
