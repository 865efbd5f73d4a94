"""The sockets of an acceptor's clients, with their one buffer and the turn that follows each read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from acceptor.amqp.read_size import LARGE_READ_BYTES
from acceptor.sockets.hang_ups import HangUps, HasFile
from acceptor.tls.stream import RECORD_BYTES
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.core import AcceptorCore

log = get_logger()


class ClientSocket(HasFile, Protocol):
    """One client's socket."""

    def unstall(self) -> None:
        """The replica has caught up with the topology: process the bytes that were read."""
        ...


P = TypeVar("P", bound=ClientSocket)


class Sockets(Generic[P]):
    """The clients' sockets of one acceptor.

    `most` is how many there may be; `arriving` have not completed their TLS handshake. `stalled` wait for the replica
    to catch up with the topology; `lingering` counts those that have had the last word and are not closed by their
    clients. `emptied` is set when the last one goes. At `last_read` a connection was read, or began. `schedule_finish`
    has the turn finished once everything that is ready has been read.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, core: AcceptorCore, most: int, schedule_finish: Callable[[], None]
    ) -> None:
        self.loop = loop
        self.core = core
        self.state, self.delivery, self.outputs = core.state, core.delivery, core.budgets.outputs
        self.most = most
        self.schedule_finish = schedule_finish
        self.protocols: dict[ConnectionState, P] = {}
        self.arriving = 0
        self.stalled: list[P] = []
        self.lingering = 0
        self.hang_ups: HangUps[P] = HangUps()
        self.emptied = asyncio.Event()
        # A partial frame of at most the largest frame_max may precede the bytes read, and with TLS the plaintext of a
        # record that was incomplete is added to them.
        self.buffer = memoryview(bytearray(LARGE_READ_BYTES + RECORD_BYTES + core.state.settings.amqp.frame_max + 64))
        self.ciphertext = memoryview(b"")
        self.last_read = 0.0

    def set_clock(self) -> None:
        """Something has come: the core's clock shows when."""
        self.state.now = self.last_read = self.loop.time()

    def have_room_for(self, peer: str) -> bool:
        """Whether one more client leaves enough files for the process itself to open; if not, that is logged."""
        if len(self.protocols) + self.arriving < self.most:
            return True
        log.warning("connection refused: the limit of open files is near", peer=peer, connections=self.most)
        return False

    def caught_up(self) -> None:
        """Let connections go on that waited for the replica, which has moved."""
        if self.stalled and not self.state.behind():
            stalled, self.stalled = self.stalled, []
            for protocol in stalled:
                protocol.unstall()
