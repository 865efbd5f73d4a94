"""A paused socket is not read, but that its peer closed or reset it is noticed, and that something came (epoll(7)).

Asked is only for what is new (EPOLLET): of any number of sockets to which nothing happens there is nothing to look at.
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
    """The socket is dead, its peer has closed its side, or octets have come."""

    protocol: P
    dead: bool
    closed: bool


class HangUps(Generic[P]):
    """The paused sockets of an acceptor. What is paused only until the next look costs no call of the system."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._new: dict[P, None] = {}
        self._watched: dict[int, P] = {}

    def watch(self, protocol: P) -> None:
        self._new[protocol] = None

    def forget(self, protocol: P, *, closed: bool = False) -> None:
        """It is read again, or (the kernel forgets it by itself) closed; its number may be another socket's by now."""
        self._new.pop(protocol, None)
        if self._watched.get(protocol.fd) is protocol:
            del self._watched[protocol.fd]
            if not closed:
                self._poll.unregister(protocol.fd)

    def look(self) -> Iterator[News[P]]:
        """What has happened since the last look; of one that is new, what has by now."""
        new, self._new = self._new, {}
        for protocol in new:
            self._watched[protocol.fd] = protocol
            self._poll.register(protocol.fd, EVENTS)
        for fd, event in self._poll.poll(0) if self._watched else ():
            known = self._watched.get(fd)
            if known is not None:
                yield News(known, bool(event & (select.EPOLLERR | select.EPOLLHUP)), bool(event & select.EPOLLRDHUP))
