"""The vhosts that are stopped first on the way to a limit of the node: those that hold more than their guarantee.

      a resource is at or below its resume mark ──▶ no vhost
      between resume and stop mark ──▶ the further it is, the more of these vhosts, those most over first
      at its stop mark ──▶ all vhosts, by the gate of the shard

A vhost is over its guarantee if its queues hold a larger part of the bytes in all queues. A stopped vhost stays so
until the resource is back at its resume mark, or the vhost within its guarantee. Each acceptor decides for itself, from
the gauges, whenever it polls for lost broadcasts; until a resource is above its resume mark there is nothing to decide.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from acceptor.gates.cause import HoldCause
from acceptor.gates.gate import WaitingChannel
from acceptor.gates.shut_gate import ShutGate
from penstock.memory.gauges import Gauges
from penstock.telemetry.schema import Cause
from router.model.policies import policy_for
from router.model.policy_keys import GUARANTEE, VHOST
from router.model.topology import Topology

RESOURCES: tuple[Cause, ...] = ("memory", "process memory", "store", "spill")
"""As the gauges of a shard's gate number them."""


class Share(NamedTuple):
    """The part of all queues' bytes that is in a vhost's queues, and the vhost's guarantee, in percent."""

    held: float
    guarantee: float

    @property
    def excess(self) -> float:
        return self.held - self.guarantee


class VhostGate(ShutGate):
    """The gate of a stopped vhost; it exists as long as the stop."""

    def __init__(self, vhost: str, share: Share, resource: str) -> None:
        super().__init__()
        self.vhost = vhost
        self.share = share
        self.resource = resource

    def __str__(self) -> str:
        return (
            f"vhost '{self.vhost}' holds {self.share.held:.0f} % of what the node does, {self.share.guarantee:.0f} % "
            f"are its guarantee, and the node's {self.resource} is nearly used up"
        )

    def describe(self) -> HoldCause:
        """Describe the vhost and the resource that is short."""
        return HoldCause("vhost", str(self), f"vhost '{self.vhost}'", "pressure", facts={"vhost": self.vhost})

    def serve(self) -> None:
        """Admit no channel: when the gate opens it is removed, and `Pressure.update` frees its channels."""


class Pressure:
    """The gates of stopped vhosts at one acceptor, by vhost."""

    def __init__(self, topology: Topology, gauges: Gauges) -> None:
        self.topology = topology
        self.gauges = gauges
        self.gates: dict[str, VhostGate] = {}

    def update(self, freed: dict[WaitingChannel, None]) -> bool:
        """Close and open gates, and return whether any was. Channels that waited at an opened one are `freed`."""
        gauges = self.gauges
        thousandths, worst = max((gauges.depth_count(shard), shard) for shard in range(gauges.shards))
        if not thousandths and not self.gates:
            return False
        shares = self.shares() if thousandths else {}
        over = sorted((vhost for vhost in shares if shares[vhost].excess > 0), key=lambda vhost: -shares[vhost].excess)
        stopped = over[: -(-thousandths * len(over) // 1000)]
        changed = False
        for vhost in [vhost for vhost in self.gates if vhost not in over]:
            gate = self.gates.pop(vhost)
            gate.lifted = changed = True
            freed |= gate.waiting
        for vhost in stopped:
            if vhost in self.gates:
                self.gates[vhost].share = shares[vhost]
            else:
                self.gates[vhost] = VhostGate(vhost, shares[vhost], self.resource(worst))
                changed = True
        return changed

    def resource(self, shard: int) -> str:
        """Return the name of the resource that a shard is nearest to running out of."""
        gate = self.gauges.queue_read(shard)
        return RESOURCES[gate.consumers] if gate is not None and gate.consumers < len(RESOURCES) else RESOURCES[0]

    def shares(self) -> dict[str, Share]:
        """Return the share of each vhost. Vhosts without a guarantee by policy have equal parts of the rest."""
        held = {vhost: self.held(vhost) for vhost in self.topology.vhosts()}
        total = max(sum(held.values()), 1)
        said = {vhost: percent for vhost in held if (percent := self.guarantee(vhost)) is not None}
        rest = max(100 - sum(said.values()), 0) / max(len(held) - len(said), 1)
        return {vhost: Share(100 * nbytes / total, said.get(vhost, rest)) for vhost, nbytes in held.items()}

    def held(self, vhost: str) -> int:
        """Return the bytes in a vhost's queues."""
        slots = array("q", [queue.slot for queue in self.topology.queues_in(vhost)])
        return self.gauges.depths(slots)[1]

    def guarantee(self, vhost: str) -> int | None:
        """Return a vhost's guarantee by policy in percent; None if no policy gives one."""
        policy = policy_for(self.topology, "", VHOST, vhost)
        found = policy.definition.get(GUARANTEE) if policy else None
        return None if found is None else int(str(found).rstrip("% "))
