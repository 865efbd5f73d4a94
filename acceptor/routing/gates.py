"""The gates of an acceptor: created, changed and removed as the topology says, opened and closed as the gauges say.

The gates of queues (`queue_gates`, by queue id) and of operators' stops (by number) exist as long as the queue or the
stop; those of shared limits and rates from the first route that needs them; that of a vhost while the vhost is stopped.
"""

from __future__ import annotations

from collections.abc import Callable

from acceptor.gates.claims import Claims
from acceptor.gates.fair import BY_CONNECTION
from acceptor.gates.gate import Gate, WaitingChannel
from acceptor.gates.lane import lane_of
from acceptor.gates.lane_line import LaneLine
from acceptor.gates.metered import INTERVAL, Metered
from acceptor.gates.move_depths import MoveDepths
from acceptor.gates.pace import paced
from acceptor.gates.parts import Parts
from acceptor.gates.pools import Pools
from acceptor.gates.pressure import Pressure
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.rates import Rates
from acceptor.gates.rounds import Rounds
from acceptor.gates.stops import StopGate
from acceptor.gates.terms import terms_of
from acceptor.gates.wakeups import WakeUps
from acceptor.links.shard_link import ShardLink
from acceptor.routing.routing import RoutingGate
from acceptor.routing.undecided import UndecidedGate
from penstock.bus.link_stage import LinkStage
from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import QueueLimits
from penstock.memory.gauges import Gauges
from penstock.settings import Settings
from router.model.topology import Queue, Topology


class Gates:
    """All gates of the acceptor with that index. `lanes` are the ids of queues with a priority lane, `away` the queues
    that move to another shard: until they are at home their slots in the gauges say nothing.

    `contended` are the gates of queues that were full lately (acceptor/gates/rounds.py), `stopped` those whose stop the
    early notice (acceptor/holding/early.py) has not handled yet. `changed` gates have other limits or terms, `freed`
    channels wait at a gate that is gone. `clock` returns seconds, `turns` the number of the loop's turn.
    """

    def __init__(
        self,
        index: int,
        incarnation: int,
        topology: Topology,
        gauges: Gauges,
        settings: Settings,
        links: list[ShardLink],
        clock: Callable[[], float],
        turns: Callable[[], int],
    ) -> None:
        self.topology = topology
        self.gauges = gauges
        self.acceptors = settings.acceptors
        self.links = links
        self.clock = clock
        self.queue_gates: dict[int, QueueGate] = {}
        self.lanes: set[int] = set()
        self.away = MoveDepths(gauges)
        self.stops: dict[int, StopGate] = {}
        self.claims = Claims(gauges, index, incarnation)
        self.pools = Pools(
            topology, gauges, settings.acceptors, settings.flow.defaults, turns, self.away, self.claims
        )  # fmt: skip
        self.pressure = Pressure(topology, gauges)
        self.routing = RoutingGate()
        self.undecided = UndecidedGate()
        self.metered = Metered(INTERVAL * index / settings.acceptors)
        self.rates = Rates(topology, gauges, clock, self.metered, index, settings.acceptors)
        self.wakeups = WakeUps(gauges)
        self.parts = Parts(index, topology, links, self.queue_gates)
        self.freed: dict[WaitingChannel, None] = {}
        self.changed: list[QueueGate] = []
        self.stopped: dict[QueueGate, None] = {}
        self.contended: dict[QueueGate, None] = {}

    def limited(self) -> list[QueueGate]:
        """Return the gates of queues, and of limits over several queues."""
        return [*self.queue_gates.values(), *self.pools.by_limit.values()]

    # Topology

    def limit_queue(self, queue: Queue) -> None:
        """Create or change the gate of a queue that is new, or whose limits, features or shard have changed."""
        limits, queue_gate = QueueLimits.from_wire(queue.limits), self.queue_gates.get(queue.queue_id)
        features = QueueFeatures.from_wire(queue.features)
        terms = terms_of(features.throttle, features.hold)
        pace = paced(features, queue_gate.pace if queue_gate else None, self.clock, self.metered, self.parts)
        if not limits.marks and pace is None:
            self.close_queue_gate(queue.queue_id)
            return
        if queue_gate is None:
            queue_gate = self.queue_gates[queue.queue_id] = QueueGate(
                self.gauges, self.acceptors, queue.queue_id, queue.slot, queue.vhost, queue.name, limits, terms
            )
            queue_gate.rounds = Rounds(self.clock, self.metered, self.contended)
        elif (
            (queue_gate.limits, queue_gate.terms) != (limits, terms) or pace is not None or queue_gate.pace is not None
        ):
            queue_gate.set_limits(limits)
            queue_gate.terms = terms
            self.changed.append(queue_gate)
        if queue_gate.slot != queue.slot:  # the queue has moved to another shard
            queue_gate.slot = queue.slot
            queue_gate.announced_epoch = -1
            self.wakeups.forget()
            self.parts.forget_queue(queue_gate)
            self.changed.append(queue_gate)
        if pace is not None and queue_gate.pace is None:
            for channel in queue_gate.waiting:
                self.metered.waits(queue_gate, channel, self.clock())
        queue_gate.pace = pace
        queue_gate.lane = lane_of(features)
        if queue_gate.lane is not None:
            self.lanes.add(queue.queue_id)
            queue_gate.lane_line = queue_gate.lane_line or LaneLine(queue_gate, self.metered, self.clock, self.claims)
        else:
            self.lanes.discard(queue.queue_id)
            queue_gate.close_lane()
        queue_gate.share_by(features.fair_by or BY_CONNECTION)

    def close_queue_gate(self, id: int) -> None:
        """Remove the gate of a queue that is deleted or has no limit, and give its withheld confirms."""
        queue_gate = self.queue_gates.pop(id, None)
        self.lanes.discard(id)
        if queue_gate is not None:
            queue_gate.close()
            self.contended.pop(queue_gate, None)
            self.freed |= queue_gate.waiting

    def stop(self, number: int) -> None:
        """Create the gate of an operator's stop."""
        self.stops.setdefault(number, StopGate(self.topology.stops[number]))

    def lift(self, number: int) -> None:
        """Remove the gate of a stop, and free the channels that wait at it."""
        gate = self.stops.pop(number)
        gate.lifted = True
        self.freed |= gate.waiting

    def keep_only(self, queues: set[int]) -> None:
        """After a snapshot: remove the gates of all other queues, and of stops that the topology lacks."""
        for id in self.queue_gates.keys() - queues:
            self.close_queue_gate(id)
        for number in self.stops.keys() - self.topology.stops.keys():
            self.lift(number)

    def reconsider(self) -> None:
        """The topology has changed: have waiting channels leave gates that their publishes need not pass."""
        self.changed += self.pools.apply_topology(self.freed)
        self.rates.apply_topology()
        waiting, self.freed = self.freed, {}
        gates: list[Gate] = [*self.stops.values(), *self.rates.by_bucket.values(), *self.limited(), *self.links]
        for gate in gates:
            waiting |= gate.waiting
        for channel in waiting:
            channel.reconsider()

    def apply_changed(self) -> None:
        """Apply changed limits and terms: release confirms and channels that they hold no longer."""
        changed, self.changed = self.changed, []
        for queue_gate in changed:
            if not queue_gate.terms.means.confirms:
                queue_gate.release_withheld()
            self.poll(queue_gate)

    # Shards

    def shard_died(self, shard: int) -> None:
        """A shard died, so its transient queues are empty: nack the publishes whose confirms they withhold."""
        self.wakeups.forget()
        self.parts.forget(shard)
        for queue_gate in list(self.queue_gates.values()):
            queue_gate.lagging = False  # the next incarnation does not know of it
            queue = self.topology.queue_by_id(queue_gate.id) if queue_gate.withheld else None
            if queue is not None and queue.shard == shard and not queue.durable:
                queue_gate.lose_withheld()

    def on_broadcast(self, id: int, epoch: int) -> None:
        """Handle a shard's broadcast: a queue, or (`id` below 0) the shard itself, is saturated or has room again."""
        self.wakeups.on_broadcast(id, epoch)
        gate = self.links[-1 - id] if id < 0 else self.queue_gates.get(id)
        if gate is not None:
            self.poll(gate)

    def give_dequeued(self, link: ShardLink) -> None:
        """Give the confirms of messages that have left saturated queues of a shard."""
        dequeued, link.dequeued = link.dequeued, []
        for id, rows in dequeued:
            if id in self.queue_gates:
                link.give_dequeued(self.queue_gates[id], rows)

    def on_turn(self) -> None:
        """A turn of a shard has arrived: serve gates that may have new room without a broadcast."""
        if self.metered.closed:
            self.metered.serve_paced()
        if self.pools.by_limit:
            self.poll_pools()

    def waits_for_time(self, gate: Gate, channel: WaitingChannel) -> None:
        """A channel begins to wait at a gate that opens with time."""
        self.metered.waits(gate, channel, self.clock())
        if isinstance(gate, QueueGate) and gate.pace is not None:
            gate.pace.ask(gate)

    # Polling

    def poll(self, gate: QueueGate | ShardLink) -> None:
        """Hold or admit waiting channels as the gauges say. A broadcast is a mere trigger: it may be late, repeated or
        lost.
        """
        if isinstance(gate, QueueGate) and gate.id in self.away:
            return
        if gate.is_saturated():
            epoch = gate.flow_epoch()
            if epoch != gate.announced_epoch:
                gate.announced_epoch = epoch
                if isinstance(gate, QueueGate):
                    self.stopped[gate] = None
                for channel in [channel for channel in gate.waiting if channel.held_by is None]:
                    channel.held_at(gate)
            return
        if isinstance(gate, QueueGate):
            gate.lagging = False
            gate.release_withheld()
            gate.unwarn()
        gate.serve()

    def is_home(self, id: int) -> None:
        """A moving queue is at its old or new home, or deleted: trust its gauges again."""
        self.away.is_home(id)
        queue_gate = self.queue_gates.get(id)
        if queue_gate is not None:
            if queue_gate.pace is not None:
                queue_gate.pace.forget()
            self.changed.append(queue_gate)

    def poll_pools(self) -> None:
        """Poll the limits over several queues at which channels or confirms wait."""
        for pool in self.pools.closed():
            self.poll(pool)

    def recheck_queues(self) -> None:
        """Hold or admit the channels that a lost broadcast left waiting at a queue; report fair share weights."""
        waited_at = [
            queue_gate
            for queue_gate in self.queue_gates.values()
            if queue_gate.waiting or queue_gate.withheld or queue_gate.warned
        ]
        if all(link.stage in (LinkStage.UP, LinkStage.ABSENT) for link in self.links):
            self.wakeups.poll(waited_at)
        for queue_gate in waited_at:
            if queue_gate.waiting or queue_gate.withheld or queue_gate.warned:
                self.poll(queue_gate)
                if queue_gate.fanned:
                    self.leave(queue_gate)
        if self.acceptors > 1:
            self.parts.report_weights(dict.fromkeys([*waited_at, *self.contended]))
        for queue_gate in list(self.contended):
            assert queue_gate.rounds is not None
            queue_gate.rounds.end_if_over(queue_gate)

    def leave(self, queue_gate: QueueGate) -> None:
        """Recheck confirms and channels that wait for a queue of a fan-out, where a queue may lag by now."""
        queue_gate.release_left()
        for channel in list(queue_gate.warned):
            channel.recheck_warning()
        for channel in list(queue_gate.waiting):
            channel.reconsider()

    def recheck_others(self, now: float) -> None:
        """Hold or admit channels at limits over several queues, shards, rates and paced queues likewise."""
        self.poll_pools()
        for link in self.links:
            if link.withheld:
                link.forget_given()
            if link.waiting:
                self.poll(link)
        self.metered.hold_overdue(now)
        self.metered.serve()
