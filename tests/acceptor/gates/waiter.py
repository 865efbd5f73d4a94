"""A channel without a client, which waits at gates and records how much it is let in with."""

from __future__ import annotations

from collections.abc import Hashable

from acceptor.gates.cause import HoldCause
from acceptor.gates.gate import Gate
from acceptor.gates.permissions import Access
from acceptor.gates.rights import InternalRights
from acceptor.gates.shut_gate import ShutGate
from router.model.topology import Topology


class Waiter:
    """A channel with `wants` parked messages of `length` bytes each, in a share of its own with this `weight`.

    `admitted` has the largest number of messages allowed in each of its turns. `lane` is the number of its parked
    messages for a priority lane.
    """

    def __init__(self, name: str = "", wants: int = 0, length: int = 1, weight: int = 1, vhost: str = "/") -> None:
        self.name = name
        self.wants = wants
        self.length = length
        self.weight = weight
        self.access = Access(InternalRights(Topology().users, "guest"), vhost)
        self.held_by: Gate | None = None
        self.admitted: list[int] = []
        self.lane = 0

    def admit(self, most: int) -> None:
        self.admitted.append(most)

    def pass_lane(self, most: int) -> int:
        self.admitted.append(most)
        sent = min(most, self.lane)
        self.lane -= sent
        return sent

    def waits_for_lane(self) -> bool:
        return self.lane > 0

    def share(self, by: str) -> tuple[Hashable, int]:
        return self, self.weight

    def size(self) -> int:
        return self.length

    def held_at(self, gate: Gate) -> None:
        self.held_by = gate

    def unwarn(self) -> None:
        pass

    def check_warning(self) -> None:
        pass

    def reconsider(self) -> None:
        pass


class Shut(ShutGate):
    """A shut gate for no particular reason."""

    def describe(self) -> HoldCause:
        return HoldCause("stop", "shut", "shut", "operator")
