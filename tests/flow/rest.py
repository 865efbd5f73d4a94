"""Invariants once everything has come to rest."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis.stateful import precondition, rule

from acceptor.core import AcceptorCore
from acceptor.gates.pools import Pool
from acceptor.gates.queue_gate import QueueGate
from shard.contents.queue_cy import Queue
from shard.contents.segment_cy import Segment
from tests.flow.moves import Moves
from tests.flow.world import EXCHANGES, Id, Kept, identity
from tests.simulator.invariants.gates import is_stopped, surplus_is_bounded
from tests.simulator.invariants.node import hold_at_rest
from tests.simulator.joined.node import parked
from tests.simulator.promises import tags_of


class AtRest(Moves):
    """Every waiting channel has a reason to wait, all messages read are somewhere, and the books are right."""

    @precondition(lambda self: self.sent)
    @rule()
    def rest(self) -> None:
        """Deliver everything, then check."""
        self.revive()
        self.node.settle(4)
        self.node.come_to_rest()
        for kept in self.living().values():
            if kept.name in self.changed:
                queue = self.node.state(kept.name)
                self.changed[kept.name] = queue.depth, queue.depth_bytes
        hold_at_rest(self.node)
        self.moves_are_answered()
        for _, life in self.node.running_acceptors():
            self.surplus_is_bounded(life.core)
        self.nobody_waits_for_unprivileged_queues(at_rest=True)
        self.stops_hold()
        self.nothing_is_lost()
        if not self.losses:
            self.transactions_are_whole()
        self.confirms_are_right()
        for person in self.people:
            for session in person.sessions.values():
                channel = person.client.connection.channels.get(session.number)
                assert session.flows or session.closing or (channel is not None and is_stopped(channel))

    def revive(self) -> None:
        """Start again the processes that have died."""

    def stops_hold(self) -> None:
        """Check that nothing has entered a stopped queue since the stop arrived everywhere."""
        for number, before in self.stops.items():
            stop = self.node.router.topology.stops[number]
            if stop.exchange is not None:
                continue  # messages may enter through another exchange
            counts = {}
            for kept in self.living().values():
                life = self.node.shards[self.node.queue(kept.name).shard]
                if life is not None and stop.queue in (None, kept.name):
                    counts[kept.name] = len(life.entered(kept.id))
            if before is not None and not self.losses and not self.stores:
                assert all(counts[name] == before[name] for name in counts.keys() & before.keys())
            self.stops[number] = counts

    def surplus_is_bounded(self, core: AcceptorCore) -> None:
        """Check the unused shares that are remembered at queues that no policy has changed."""
        for queue_gate in core.gates.queue_gates.values():
            if queue_gate.name not in self.changed:
                surplus_is_bounded(queue_gate)

    def nothing_is_lost(self) -> None:
        """Check that every message read by an acceptor is parked there or has entered its queue, and no other has."""
        waiting = {identity(body) for channel in self.node.channels() for _, body in parked(channel)}
        arrived = set(self.arrived)
        for kept in self.living().values():
            life = self.node.shards[self.node.queue(kept.name).shard]
            assert life is not None
            entered = [identity(body) for body in life.entered(kept.id)]
            meant = {id for id in arrived if self.meant_for(id, kept)}
            must = {id for id in meant if self.sent_at[id] > kept.born}
            meant |= {id for ids in self.undecided for id in ids if self.meant_for(id, kept)}
            contents = self.node.state(kept.name).contents
            counted = contents.totals.published + life.books[kept.id].rejected
            uncounted = self.may_miss_refusals() or self.refuses_for_itself(kept)
            assert counted == len(entered) or (counted < len(entered) and uncounted)
            assert len(set(entered)) == len(entered)
            assert self.lanes or in_order([id for id in entered if (kept.name, id) not in self.afresh])
            assert not must & waiting & set(entered)
            missing = (
                must - waiting - set(entered) - self.gone_with_others(kept) - self.gone_prepared(kept) - self.nacked
            )
            whose, how_many = self.dropped()
            assert {id[0] for id in missing} <= whose and len(missing) <= how_many, missing
            if not self.losses:
                assert set(entered) <= meant
                # A client that is paused may have closed a channel whose close is unread.
                if not any(session.closing for person in self.people for session in person.sessions.values()):
                    held = [at for at in self.held_deliveries() if at[0] == kept.name]
                    sure = [at for at in held if at not in self.afresh]
                    assert len(sure) <= contents.unacked <= len(held)

    def transactions_are_whole(self) -> None:
        """Check that transactions of unknown outcome took effect as a whole or not at all."""
        for ids in self.undecided:
            must, found = set(), set()
            for kept in self.living().values():
                life = self.node.shards[self.node.queue(kept.name).shard]
                assert life is not None
                there = set(map(identity, life.entered(kept.id))) | self.gone_with_others(kept)
                mine = {id for id in ids if self.meant_for(id, kept) and self.sent_at[id] > kept.born}
                must |= {(kept.name, id) for id in mine}
                found |= {(kept.name, id) for id in mine & there}
            assert not found or found == must

    def may_miss_refusals(self) -> bool:
        """Whether an acceptor died before a shard reported its refusals, which are counted when reported."""
        return False

    def gone_with_others(self, kept: Kept) -> set[Id]:
        """Return the messages that entered a queue in an earlier incarnation of its shard, or were with a dead
        acceptor.
        """
        return set()

    def gone_prepared(self, kept: Kept) -> set[Id]:
        """Return the messages that died with a shard before the transaction that publishes them was decided."""
        return set()

    def held_deliveries(self) -> list[tuple[str, Id]]:
        """Return the clients' unacked deliveries, as the acceptors must know them by now."""
        sessions = [session for person in self.people for session in person.sessions.values()]
        return [delivery for session in sessions for delivery in session.open.values()]

    def meant_for(self, id: Id, kept: Kept) -> bool:
        """Whether a message was published to a queue."""
        to = self.bound_for[id]
        return to == kept.kind or kept.kind in EXCHANGES.get(to, ())

    def is_in_one_of(self, queue_gates: Sequence[QueueGate], id: Id) -> bool:
        """Whether one of these queues has a message, ready or unacked; limits over several do not report it."""
        names = {queue_gate.name for queue_gate in queue_gates if not isinstance(queue_gate, Pool)}
        if len(names) < len(queue_gates):
            return True
        return any((name, id) in self.in_hand for name in names) or any(id in self.ready[name] for name in names)

    def look_into_queues(self) -> None:
        """Collect the ready messages of queues and the unacked ones of clients; none was reported to have left."""
        self.in_hand = set(self.held_deliveries())
        self.ready = {}
        for kept in self.queues.values():
            record = self.node.router.topology.queue_by_id(kept.id)  # its deletion may wait behind parked publishes
            if record is None:
                continue
            life = self.node.shards[record.shard]
            assert life is not None
            contents = self.node.state(kept.name).contents
            found = contents.survivors()
            self.ready[kept.name] = {identity(body) for part in found for body in bodies(contents, *part)}
            if not self.losses:
                gone = {identity(body) for row, body in life.dequeued.items() if row[0] == kept.id}
                assert not gone & self.ready[kept.name]
                assert not {(kept.name, id) for id in gone} & self.in_hand

    def tells_of_leaving(self, name: str) -> bool:
        """Whether a queue still knows which turns its messages came with."""
        return name not in self.moved

    def confirms_are_right(self) -> None:
        """Check that an unconfirmed publish is parked, or withheld: a saturated queue still has it."""
        self.look_into_queues()
        arrived = set(self.arrived)
        for person in self.people:
            for session in person.sessions.values():
                channel = person.client.connection.channels.get(session.number)
                if channel is not None and session.confirms and not session.closing:
                    withheld = {
                        span
                        for queue_gate in channel.services.gates.limited()
                        for span in queue_gate.withheld
                        if not span.done
                    }
                    tags = {identity(body)[2] for _, body in parked(channel)}
                    for span in withheld:
                        if span.confirms is channel.confirms:
                            tags |= (waiting := set(tags_of(span)))
                            assert (
                                self.losses
                                or not all(self.tells_of_leaving(queue_gate.name) for queue_gate in span.queue_gates)
                                or all(self.is_in_one_of(span.queue_gates, session.tags[tag]) for tag in waiting)
                            )
                    assert tags == {tag for tag, id in session.tags.items() if id in arrived} - session.answered.keys()


def bodies(contents: Queue, segment: Segment, first: int, count: int) -> list[bytes]:
    """Return the bodies of some messages of a segment, wherever its contents are."""
    there = segment.batch is not None
    batch = segment.batch if there else contents.load(segment)
    start = first + (segment.first if there else 0)
    return [batch.record(start + i)[2] for i in range(count)]


def in_order(ids: list[Id]) -> bool:
    """Whether each publisher's messages are in the order of their numbers."""
    last: dict[tuple[int, int], int] = {}
    for client, channel, number in ids:
        if last.get((client, channel), 0) > number:
            return False
        last[client, channel] = number
    return True
