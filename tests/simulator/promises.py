"""What the documents promise, checked against what the node does while it plays, and at the end.

Each check names the page that it comes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from acceptor.clients.channel_state import ChannelState
from acceptor.gates.confirms import Span
from router.model.delaying import delay_queue_of
from tests.simulator.invariants.accounts import the_ledger_adds_up
from tests.simulator.invariants.gates import queue_of, surplus_is_bounded
from tests.simulator.invariants.metered import Ahead, most_paced, most_rated, nobody_is_remembered, rates_hold
from tests.simulator.invariants.node import hold_always, hold_at_rest, hold_when_empty
from tests.simulator.joined.node import parked
from tests.simulator.node import SimulatedNode
from tests.simulator.plan import DEAD, DELAYED, Plan
from tests.simulator.truth import (
    BESIDE,
    DROPPED,
    LARGEST,
    NO_SUCCESSOR,
    SUCCESSOR_DIED,
    At,
    Fate,
    Id,
    Message,
    Truth,
    grave,
    identity,
)
from tests.simulator.weather import BEGINS

NOTED = {"deadlock": "action", "last resort": "way", "process replaced": "", SUCCESSOR_DIED: "", NO_SUCCESSOR: ""}
"""Events of the log that are counted, each with the field by which they differ."""


class Promises:
    """The promises of one node. `noted` counts events that show what was met in the play."""

    def __init__(self, plan: Plan, truth: Truth, node: SimulatedNode) -> None:
        self.plan = plan
        self.truth = truth
        self.node = node
        self.noted: Counter[tuple[str, str]] = Counter()
        self.ahead: Ahead = {}
        self.lent: set[str] = set()
        """The queues that have been lent room, to break a deadlock."""
        self.resumed: dict[tuple[int, str], tuple[float, int]] = {}
        """By the epoch and the acceptor: how long channels were held that are so no longer, and how many holds."""

    def hold_always(self) -> bool:
        """Check what must be true after each step: no error is logged. Return whether a rolling restart ended early."""
        given_up = False
        if self.node.logs:
            for line in self.node.logs:
                given_up |= line["event"] in (SUCCESSOR_DIED, NO_SUCCESSOR)
                if line["event"] in NOTED:
                    self.noted[line["event"], line.get(NOTED[line["event"]], "")] += 1
                if line["event"] == DROPPED:
                    self.truth.dropped |= self.truth.connections.get(line["connection"], set())
                elif line["event"] == "resume":
                    acceptor = self.node.epoch, line["connection"].rpartition(".")[0]
                    seconds, holds = self.resumed.get(acceptor, (0.0, 0))
                    self.resumed[acceptor] = seconds + line["held_seconds"], holds + 1
                assert line["log_level"] not in ("error", "critical") or line["event"] in self.truth.expected, line
            self.node.logs.clear()
        return given_up

    def hold_now(self) -> None:
        """Check what must be true after any step, now and then."""
        self.depths_are_bounded()
        self.nobody_waits_for_powerless_queues()
        most = self.truth.largest_commit
        rates_hold(self.node, LARGEST + BESIDE, most, most * (LARGEST + BESIDE), self.ahead)
        hold_always(self.node)

    def depths_are_bounded(self) -> None:
        """Check that no queue is deeper than its stop mark and the published overshoot (docs/flow-control.md), which a
        commit at each acceptor may exceed. A queue that a fanout feeds may lag; a death repeats what was in flight, and
        so does a move; dead letters count again once it has shown that there is no room for them.
        """
        if self.truth.shard_deaths:
            return
        acceptors = self.plan.acceptors
        seats = acceptors + self.plan.renews  # one place at a time has a successor, which has a share too
        most = seats * self.truth.largest_commit
        moves = self.node.router.topology.moves
        for index, shard in self.node.running_shards():
            for queue in shard.core.state.queues.values():
                if queue.saturation.lent is not None:
                    self.lent.add(queue.name)
                if queue.id in moves or index != self.truth.shards.get(queue.name, index):
                    self.truth.steady.discard(queue.name)
                if queue.name not in self.truth.steady or queue.exemption.yields or queue.name in self.lent:
                    continue
                marks = queue.limits.marks
                bounds = marks.overshoot_bound(acceptors, queue.features.reserve)
                bound, bound_bytes = (-(-each * seats // acceptors) for each in bounds)
                bound_bytes += (seats + most) * (LARGEST + BESIDE)
                depth, depth_bytes = queue.depth - queue.unburied.count, queue.depth_bytes - queue.unburied.whole
                kept = not marks.stop_count or depth <= marks.stop_count + bound + most
                assert kept, f"{queue.name} has {queue.depth} messages, stopped at {marks.stop_count}"
                kept = not marks.stop_bytes or depth_bytes <= marks.stop_bytes + bound_bytes
                assert kept, f"{queue.name} has {queue.depth_bytes} bytes, stopped at {marks.stop_bytes}"
                paced = most_paced(queue, acceptors, seats)
                assert paced is None or depth <= paced + most, f"{queue.name} has {depth}, paced at {paced}"
                rated = most_rated(queue, self.node.now - BEGINS)
                entered = queue.contents.totals.published
                assert rated is None or entered <= rated + most, f"{queue.name} got {entered}, its rate allows {rated}"

    def nobody_waits_for_powerless_queues(self) -> None:
        """Check that a channel waits at an unprivileged queue only for publishes to that queue by its name
        (docs/flow-control.md).
        """
        if not self.truth.powerless:
            return
        for channel in self.node.channels():
            for gate in channel.gates:
                queue = self.node.router.topology.queue_by_id(queue_of(gate))
                if queue is not None and queue.name in self.truth.powerless:
                    numbers = self.truth.connections.get(channel.connection.id, set())
                    known = not numbers or any(self.truth.is_publishing_to(each, queue.name) for each in numbers)
                    assert known, f"clients {numbers} wait for {queue.name}"

    def hold_at_rest(self) -> None:
        """Check what is true once everything has come to rest."""
        hold_at_rest(self.node)
        for seat, acceptor in self.node.running_acceptors():
            of_this = self.node.epoch, f"{self.node.index_of(seat)}.{acceptor.incarnation}"
            the_ledger_adds_up(acceptor.core, *self.resumed.get(of_this, (0.0, 0)))
            for queue_gate in acceptor.core.gates.queue_gates.values():
                if queue_gate.name in self.truth.steady:
                    surplus_is_bounded(queue_gate)

    def confirms_come(self, name: str, acceptor: int, channel: ChannelState, unconfirmed: Mapping[int, Id]) -> None:
        """Check at rest that each publish which is read and not confirmed is parked, or withheld by a full queue
        (docs/flow-control.md). `unconfirmed` has the messages by publish sequence number.
        """
        waiting = {identity(body) for _, body in parked(channel)}
        for queue_gate in self.node.core(acceptor).gates.limited():
            for span in queue_gate.withheld:
                if span.confirms is channel.confirms and not span.done:
                    waiting |= {unconfirmed[tag] for tag in tags_of(span)}
        read = {id for id in unconfirmed.values() if self.truth.messages[id].fate is not Fate.SENT}
        assert waiting == read, f"{name} waits for confirms of {sorted(read - waiting)}, for none of {waiting - read}"

    def hold_at_the_end(self) -> None:
        """Check what must be true once all queues are drained and everything is answered."""
        self.nothing_confirmed_is_lost()
        self.transactions_are_whole()
        left = [queue.name for queue in self.node.router.topology.queues() if queue.owner is not None]
        assert not left, f"{left} outlive their connections"
        hold_when_empty(self.node)
        for _, acceptor in self.node.running_acceptors():
            nobody_is_remembered(acceptor.core)

    def nothing_confirmed_is_lost(self) -> None:
        """Check that what was confirmed, committed or read has been delivered and acked (docs/durability.md)."""
        for id, message in self.truth.messages.items():
            if self.must_arrive(id, message):
                # A due message is lost where a full queue refuses it, as a dead letter is.
                refusing = self.truth.refusing if message.delayed else set()
                for queue in set(message.queues) - refusing:
                    self.has_arrived((queue, id), message)

    def has_arrived(self, at: At, message: Message) -> None:
        """Check that a message has been acked in its queue, or rejected for good, or acked where its queue sends the
        dead.
        """
        queue, id = at
        place = self.truth.places.get(at)
        if queue in self.truth.leaky or (place is not None and place.acked):
            return
        if self.truth.queues[queue].buries:
            buried = self.truth.places.get((grave(queue), id))
            came = DEAD in self.truth.leaky or (buried is not None and (buried.acked or buried.rejected))
            assert came, f"{id} is {message.fate.value}, but neither {queue} nor its dead letters brought it"
        else:
            assert place is not None, f"{id} is {message.fate.value}, but {queue} never delivered it"
            assert place.rejected, f"{id} is {message.fate.value}, but {queue} dropped it unacked"

    def must_arrive(self, id: Id, message: Message) -> bool:
        """Whether a message must have arrived in all of its queues."""
        if self.truth.has_forgotten():
            return False  # its shard's memory was all there was
        if message.delayed and delay_queue_of(DELAYED) in self.truth.leaky:
            return False  # it was damaged while it waited
        if message.fate is Fate.READ:
            lost = any(death >= message.at for death in self.truth.acceptor_deaths[message.acceptor])
            nacked = self.truth.may_refuse(message) or self.plan.bounds.last_resort == "nack"  # its client has left
            return not lost and not nacked and id.client not in self.truth.dropped
        flushed = all(
            message.promised_at <= until for cut, until in self.truth.power_cuts if message.promised_at <= cut
        )
        return message.fate in (Fate.CONFIRMED, Fate.COMMITTED) and flushed

    def transactions_are_whole(self) -> None:
        """Check that each undecided transaction has arrived as a whole or not at all (docs/durability.md). One of a
        single shard may be delivered before it is undone.
        """
        if self.truth.has_forgotten():
            return
        for ids in self.truth.transactions:
            safe = self.truth.queues.keys() - self.truth.deadly - self.truth.leaky
            at_once = [id for id in ids if not self.truth.messages[id].delayed]
            places = [(queue, id) for id in at_once for queue in self.truth.messages[id].queues if queue in safe]
            arrived = [at for at in places if at in self.truth.places and self.truth.places[at].delivered]
            one_shard = len({self.truth.shards[queue] for queue, _ in places}) == 1 or self.truth.moved
            assert len(arrived) in (0, len(places)) or one_shard, f"half a transaction: {arrived} of {places}"


def tags_of(span: Span) -> list[int]:
    """Return the unconfirmed tags of a withheld span."""
    ranges = [(span.first, span.first + span.count)] if span.unconfirmed is None else span.unconfirmed.ranges()
    return [tag for low, high in ranges for tag in range(low, high)]
