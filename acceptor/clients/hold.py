"""One hold: a channel is kept from publishing by a gate. The object exists only as long as the channel is held."""

from __future__ import annotations

from acceptor.gates.gate import Gate
from acceptor.gates.queue_gate import QueueGate


class Hold:
    """What holds a channel, since when, and on which terms.

    `gate` and `cause` are those that its client was notified of; the `cause` has the numbers of that moment. `since` is
    the beginning, whatever the gate was then, in seconds of the acceptor's clock; `causes` counts the gates so far.
    The channel may park `budgets` times the parking budget before its socket is paused. A queue that is `refusing` its
    publishes gets none of them (the rung `reject`).
    """

    __slots__ = ("budgets", "cause", "causes", "gate", "refusing", "since")

    def __init__(self, gate: Gate, since: float) -> None:
        self.since = since
        self.causes = 0
        self.budgets = 1
        self.refusing: QueueGate | None = None
        self.change(gate)

    def change(self, gate: Gate) -> None:
        """Another gate holds from now on."""
        self.gate = gate
        self.cause = gate.describe()
        self.causes += 1
