"""One hold: a channel is kept from publishing by a gate. The object exists only as long as the channel is held."""

from __future__ import annotations

from acceptor.gates.gate import Gate
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.terms import Terms


class Hold:
    """The gate that holds a channel, the beginning, and the terms.

    `gate` and `cause` are those that its client was notified of; the `cause` has the numbers of that moment. `since` is
    the beginning, whatever the gate was then, in seconds of the acceptor's clock; `causes` counts the gates so far.
    A queue that is `refusing` its publishes gets none of them (the rung `reject`).
    """

    __slots__ = ("cause", "causes", "gate", "refusing", "since", "terms")

    def __init__(self, gate: Gate, terms: Terms, since: float) -> None:
        self.since = since
        self.causes = 0
        self.refusing: QueueGate | None = None
        self.change(gate, terms)

    def change(self, gate: Gate, terms: Terms) -> None:
        """Another gate holds from now on."""
        self.gate = gate
        self.terms = terms
        self.cause = gate.describe()
        self.causes += 1
