"""Connections that are not read because of the memory they make the broker use: for answers that they do not read, or
bodies that they do not finish.

Each is logged once for each reason, and reported to operators who ask, as long as it lasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.clients.pauses import BODIES, OUTPUT
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.budgets.outputs import Outputs
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.state import AcceptorState

log = get_logger()

WHY = {
    OUTPUT: "it does not take the answers to what it has sent",
    BODIES: "the unfinished bodies of its user are beyond their limit",
}
"""The reasons (`acceptor.clients.pauses`) that are reported here, in words."""


class Unread:
    """The connections of an acceptor that are not read for such a reason: since when, by reason, in seconds.

    `logged` has the reasons for which each was logged.
    """

    def __init__(self, acceptor: AcceptorState, outputs: Outputs) -> None:
        self.acceptor = acceptor
        self.outputs = outputs
        self.since: dict[ConnectionState, dict[int, float]] = {}
        self.logged: dict[ConnectionState, int] = {}

    def begins(self, connection: ConnectionState, why: int) -> None:
        """Record a reason, and log it the first time for a connection."""
        self.since.setdefault(connection, {}).setdefault(why, self.acceptor.now)
        logged = self.logged.get(connection, 0)
        if not logged & why:
            self.logged[connection] = logged | why
            nbytes = self.nbytes(connection, why)
            log.info("connection is not read", reason=WHY[why], bytes=nbytes, **connection.whose())

    def ends(self, connection: ConnectionState, whys: int) -> None:
        """Remove these reasons from a connection that has had any."""
        reasons = self.since[connection]
        for why in [why for why in reasons if why & whys]:
            del reasons[why]
        if not reasons:
            del self.since[connection]

    def forget(self, connection: ConnectionState) -> None:
        """Forget a closed connection."""
        self.since.pop(connection, None)
        self.logged.pop(connection, None)

    def nbytes(self, connection: ConnectionState, why: int) -> int:
        """Return the bytes that are kept for a connection and keep it from being read."""
        return self.outputs.waits(connection) if why == OUTPUT else connection.kept.unfinished

    def report(self) -> list[dict[str, Any]]:
        """Return the report to the operator (`acceptor.questions`)."""
        return [
            {
                **connection.whose(),
                "unread_seconds": round(self.acceptor.now - since, 3),
                "reason": WHY[why],
                "bytes": self.nbytes(connection, why),
            }
            for connection, reasons in self.since.items()
            for why, since in reasons.items()
        ]
