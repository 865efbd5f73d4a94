"""Bodies that clients have begun and not finished: contents that the connections' scanners are putting together.

A connection that is not read cannot finish any, so it is read whatever else is kept for it, and is closed once its
bodies are too large: beyond the largest of them, which may be as large as a message may be, `amqp.unfinished_bytes`.

      reads ──(its user's share is used up, another connection of it came first)──▶ waits, not read
      waits ──(the share has room, or those before it have finished)──▶ reads
      reads, first of its user whose share is used up ──(it brings next to nothing)──▶ closed

So the connections of a user over its share go on one at a time, and each has its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.clients.connection_stage import HANDSHAKE, OPEN
from acceptor.clients.pauses import BODIES
from penstock.amqp.errors import amqp_error

if TYPE_CHECKING:
    from acceptor.budgets.accounts import Accounts
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.state import AcceptorState

# Fewer bytes are not counted: most reads end in the middle of some content.
LEAST_BYTES = 64 * 1024
# One connection may have a quarter of its user's share beside the largest of its bodies, if that is less.
OF_SHARE = 4
# The connection that is first in the line of its user has to bring this much in this time, or is closed.
PROGRESS_SECONDS = 10.0
PROGRESS_BYTES = 640 * 1024


class Line:
    """The connections of a user that have unfinished bodies, in the order in which they came.

    `first` is the one that is read; at `since` it had `nbytes` bytes. None while all are read.
    """

    __slots__ = ("connections", "first", "nbytes", "since")

    def __init__(self) -> None:
        self.connections: dict[ConnectionState, None] = {}
        self.first: ConnectionState | None = None
        self.nbytes = 0
        self.since = 0.0


class Unfinished:
    """The connections of an acceptor that have unfinished bodies, by user."""

    def __init__(self, acceptor: AcceptorState, accounts: Accounts) -> None:
        self.acceptor = acceptor
        self.accounts = accounts
        self.limit = min(acceptor.settings.amqp.unfinished_bytes, accounts.of_user // OF_SHARE)
        self.lines: dict[str, Line] = {}

    def recount(self, connection: ConnectionState) -> None:
        """Count the unfinished bodies of a connection that has been read; close it if they are too large."""
        nbytes = connection.scanner.unfinished
        if nbytes > LEAST_BYTES and connection.stage in HANDSHAKE:  # there is no user to charge
            connection.fail(amqp_error(503, "a body is sent before the connection is open"))
            return
        if nbytes <= LEAST_BYTES or connection.stage is not OPEN:
            self.forget(connection)
            return
        self.accounts.charge(connection.user, nbytes - connection.kept.unfinished)
        finished = nbytes < connection.kept.unfinished
        connection.kept.unfinished = nbytes
        line = self.lines.setdefault(connection.user, Line())
        line.connections[connection] = None
        if finished and line.first is connection:
            line.first = None
        if nbytes > self.limit and (beyond := nbytes - connection.scanner.largest()) > self.limit:
            connection.fail(
                amqp_error(
                    506,
                    f"{beyond} bytes of unfinished bodies beside the largest one, at most {self.limit} are allowed "
                    "(amqp.unfinished_bytes)",
                )
            )
            return
        if connection.pauses & BODIES or line.first is not None or self.accounts.is_used_up(connection.user):
            self.serve(connection.user)

    def forget(self, connection: ConnectionState) -> None:
        """Release a connection that has finished its bodies, or is gone: others of its user may go on."""
        if not connection.kept.unfinished:
            return
        self.accounts.charge(connection.user, -connection.kept.unfinished)
        connection.kept.unfinished = 0
        connection.resume_reading(BODIES)
        line = self.lines[connection.user]
        del line.connections[connection]
        if not line.connections:
            del self.lines[connection.user]
        else:
            if line.first is connection:
                line.first = None
            self.serve(connection.user)

    def serve(self, user: str) -> None:
        """Read those connections of a user that may be read, and pause the others."""
        line = self.lines[user]
        if not self.accounts.is_used_up(user):
            line.first = None
            for connection in line.connections:
                connection.resume_reading(BODIES)
            return
        first = next((connection for connection in line.connections if not connection.pauses & ~BODIES), None)
        if first is not line.first:
            line.first, line.since = first, self.acceptor.now
            line.nbytes = 0 if first is None else first.kept.unfinished
        for connection in line.connections:
            if connection is first:
                connection.resume_reading(BODIES)
            elif not connection.pauses & BODIES:
                connection.pause_reading(BODIES)

    def hangs_up(self, connection: ConnectionState) -> None:
        """Read a connection to the end, as its peer has closed its side: no more than the kernel holds."""
        connection.resume_reading(BODIES)

    def recheck(self, now: float) -> None:
        """Recheck whether shares have room again and first connections bring enough; called often."""
        for user, line in list(self.lines.items()):
            self.serve(user)
            first = line.first
            if first is None or now < line.since + PROGRESS_SECONDS:
                continue
            if first.kept.unfinished < line.nbytes + PROGRESS_BYTES:
                text = f"unfinished bodies of {first.kept.unfinished} bytes, and others of user '{user}' wait for them"
                first.fail(amqp_error(506, f"{text} (memory.user_percent)"))
            else:
                line.since, line.nbytes = now, first.kept.unfinished
