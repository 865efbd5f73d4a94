"""Who is not read for what it makes the broker keep: answers that it does not take, bodies that it does not finish.

It is told of in a line of the log, once for each connection and reason, and for as long as it lasts to who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.pauses import BODIES, OUTPUT
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.connection_state import ConnectionState
    from acceptor.outputs import Outputs
    from acceptor.state import AcceptorState

log = get_logger()

WHY = {
    OUTPUT: "it does not take the answers to what it has sent",
    BODIES: "bodies of its user that are not finished are more than may be",
}
"""The reasons (`acceptor.pauses`) that are told of here, in words."""


class Unread:
    """The connections of an acceptor that are not read for such a reason: since when, by reason, in seconds."""

    def __init__(self, acceptor: AcceptorState, outputs: Outputs) -> None:
        self.acceptor = acceptor
        self.outputs = outputs
        self.since: dict[ConnectionState, dict[int, float]] = {}

    def begins(self, connection: ConnectionState, why: int) -> None:
        self.since.setdefault(connection, {}).setdefault(why, self.acceptor.now)
        if not connection.told_unread & why:
            connection.told_unread |= why
            octets = self.octets(connection, why)
            log.info("connection is not read", reason=WHY[why], octets=octets, **connection.whose())

    def ends(self, connection: ConnectionState, whys: int) -> None:
        """These reasons are gone, for one that had any."""
        reasons = self.since[connection]
        for why in [why for why in reasons if why & whys]:
            del reasons[why]
        if not reasons:
            del self.since[connection]

    def forget(self, connection: ConnectionState) -> None:
        self.since.pop(connection, None)

    def octets(self, connection: ConnectionState, why: int) -> int:
        """What is kept for it that keeps it from being read."""
        return self.outputs.waits(connection) if why == OUTPUT else connection.unfinished

    def told(self) -> list[dict[str, Any]]:
        """What the operator is told (`acceptor.told`)."""
        return [
            {
                **connection.whose(),
                "unread_seconds": round(self.acceptor.now - since, 3),
                "reason": WHY[why],
                "bytes": self.octets(connection, why),
            }
            for connection, reasons in self.since.items()
            for why, since in reasons.items()
        ]
