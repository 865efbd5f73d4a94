"""The shard without its sockets: turns of the acceptors in, turns for them out.

Everything that came in one turn of the loop is taken in first; `finish_turn` then delivers, enforces limits, publishes
dead letters, decides who is saturated, writes the gauges and closes the outgoing turns. Nothing here waits and nothing
here reads a clock: whoever drives it sets `now` before it tells it anything, and finishes a turn at `next_wake` at the
latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from penstock import bus
from penstock.batch.batch_cy import SENT_AGAIN, Batch
from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import QueueLimits
from penstock.memory.gauges import DEAD, Gauges
from penstock.node.logs import get_logger
from penstock.settings import Settings
from router.model.grants import Grants
from router.model.records import Move, Queue
from router.model.topology import Topology
from shard.admission import Refused, admit, take_all
from shard.burial import RECHECK, SLICE, Burial
from shard.commits import Commits
from shard.consuming import Consuming
from shard.doing import Doing
from shard.events import Events
from shard.expiry import Alarms
from shard.flow import Flow
from shard.gate import Gate, marks_of, memory_of
from shard.journal import Journal
from shard.leases import first_held
from shard.link import Link, life_of, safe_record, safe_turn
from shard.looking import Looking, looks_first
from shard.moving import Moving
from shard.paces import Paces
from shard.paging import Paging
from shard.peers import Peers
from shard.queue_cy import NEVER
from shard.queues import QueueState
from shard.recovered import Recovered
from shard.recovery import Life, Recovery
from shard.replies import has_reply_consumer, pass_on, reply_consumer
from shard.requests import Requests
from shard.saturation import Stop
from shard.segment_cy import Origin
from shard.stalls import Stalls
from shard.transactions import prepare, release, reserve, take_in
from shard.two_phase import TwoPhase
from shard.waiters import Waiters

log = get_logger()

# Messages of a queue in one life of the shard, and how many lives there may be until numbers come again.
LIFE_BITS = 36
LIVES = 4096


class ShardCore:
    """The queues of one shard, and a link to each acceptor.

    `now` is the time of what is being taken in by the node's clock, `wall_ahead` how far the wall clock is ahead of it
    (`penstock.node.clock`), both in microseconds. `recovery` is there in a later life until it is known what is in the
    hands of consumers.
    """

    def __init__(
        self, index: int, gauges: Gauges, settings: Settings, now: int, life: int = 0, journal: Journal | None = None,
        recovered: Recovered | None = None,
    ) -> None:  # fmt: skip
        self.index = index
        self.journal = journal
        self.recovered = recovered
        self.base = (life % LIVES) << LIFE_BITS
        self.recovery: Recovery | None = None
        self.gauges = gauges
        self.now = now
        self.wall_ahead = 0
        self.version = -1
        self.topology = Topology()
        self.queues: dict[int, QueueState] = {}
        self.touched: dict[int, QueueState] = {}
        self.links: dict[bytes, Link] = {}
        self.records: dict[bytes, bytes] = {}
        self.dead: dict[tuple[str, int], int] = {}
        self.alarms = Alarms()
        self.stalls = Stalls(self.alarms)
        self.peers = Peers()
        self.burial = Burial(self, self.peers)
        self.events = Events(self)
        self.grants = Grants(self.topology)
        self.flow = Flow(gauges, self.events, settings.flow, self.broadcast, self.grants.feeder)
        self.stranger_limit = settings.flow.stranger_limit
        self.router_requests: list[tuple[str, dict[str, Any], Callable[[Any, Any], None]]] = []
        self.weight = 0
        self.held = 0
        self.gate = Gate(index, gauges, settings, now, self.broadcast)
        self.paging = Paging(self)
        self.paging.limit(*memory_of(settings, settings.shards))
        self.commits = Commits(self)
        self.two_phase = TwoPhase(self)
        if recovered is not None:
            self.two_phase.recover(recovered.parts, recovered.decisions)
        self.requests = Requests(self)
        self.moving = Moving(self)
        self.doing = Doing(self)
        self.waiters = Waiters(self)
        self.paces = Paces(self)
        self.consuming = Consuming(self, settings)
        self.operations: dict[int, Callable[..., None]] = {
            bus.REPLIES: reply_consumer,
            bus.REPLIES_TO: self.reply_consumer_lives,
            bus.RESERVE: partial(reserve, self),
            bus.PREPARED: self.two_phase.prepared,
            bus.DECIDE: self.two_phase.decide,
            bus.DO: self.two_phase.do,
            bus.IN_DOUBT: self.two_phase.asked,
            bus.OUTCOME: self.two_phase.heard,
            bus.DONE: self.two_phase.has_done,
            bus.LEFT: self.leave_behind,
            bus.EXCUSED: self.excuse_events,
            bus.WAITERS: self.waiters.hear,
            bus.PACED: self.paces.hear,
            bus.FENCE: self.moving.fence,
            bus.PARTED: self.moving.has_parted,
            bus.HOMED: self.moving.is_homed,
            **self.requests.operations,
            **self.consuming.operations,
        }

    def share_limits(self, settings: Settings, shards: int) -> None:
        """The limits of the node are shared by so many shards."""
        self.paging.limit(*memory_of(settings, shards))
        self.gate.limit(marks_of(settings, shards), self.now)
        self.consuming.hands.share(shards)

    # Topology

    def load(self, version: int, changes: list[list[Any]]) -> None:
        """Start from a snapshot: queues that are there already keep their contents.

        First go those that are here no longer: others may have their slots now.
        """
        homes = {change[3]: Queue(*change[1:]).shard for change in changes if change[0] == "queue"}
        for queue in list(self.queues.values()):
            if queue.id not in homes:
                self.close_queue(queue.id)
            elif homes[queue.id] != self.index:
                self.release_queue(queue)
        self.topology.reset()
        moves = (Move(*change[1:]) for change in changes if change[0] == "move")
        self.flow.earlier |= {
            move.queue_id: Stop(*move.stop) for move in moves if move.stop and move.home == self.index == move.target
        }
        for change in changes:
            self.change(change)
        self.moving.keep_only(self.topology.moves)
        if self.recovered is not None:
            self.recovered.forget_others()
            self.recovered = None
        self.flow.earlier.clear()
        self.advance(version)

    def apply(self, version: int, changes: list[list[Any]]) -> None:
        """Take in one published change of the topology; older ones than the snapshot are known already."""
        if version > self.version:
            for change in changes:
                self.change(change)
            self.advance(version)

    def change(self, change: list[Any]) -> None:
        self.topology.apply(change)
        if change[0] == "queue":
            self.change_queue(Queue(*change[1:]))
        elif change[0] == "queue_gone":
            self.close_queue(change[3])
        elif change[0] == "move":
            self.moving.follow(self.topology.moves[change[1]])
        elif change[0] == "move_gone":
            self.moving.over(change[1])

    def change_queue(self, record: Queue) -> None:
        """A queue is new, or a policy has changed what it may hold or does."""
        queue = self.queues.get(record.queue_id)
        if record.shard != self.index:
            if queue is not None:
                self.release_queue(queue)
            return
        if queue is None and (queue := self.moving.arrived(record)) is not None:
            self.queues[record.queue_id] = queue
            self.flow.take_over(queue, self.now)
            self.moving.freeze(queue.id)
            self.touch(queue)
        if queue is None:
            queue = self.queues[record.queue_id] = QueueState(record, self.now, self.base, self.journal)
            if self.recovered is not None:
                self.recovered.give(queue, self.consuming.leases)
                queue.saturation.govern(queue.limits.marks, self.now)
            self.flow.begin(queue, self.now)
            self.touch(queue)
            return
        limits, features = QueueLimits.from_wire(record.limits), QueueFeatures.from_wire(record.features)
        if (limits, features) != (queue.limits, queue.features):
            marks, reserve = queue.limits.marks, queue.features.reserve
            queue.govern(limits, features, self.now)
            self.touch(queue)
            if (limits.marks, features.reserve) != (marks, reserve):
                self.gauges.queue_note_over(queue.slot, 0, 0)
            if limits.marks != marks:
                self.events.note("limits", queue)

    def advance(self, version: int) -> None:
        self.version = self.topology.version = version
        self.receive_waiting()

    def receive_waiting(self) -> None:
        """Take in the turns that waited, as far as they need not go on waiting."""
        for link in list(self.links.values()):
            waiting, link.waiting = link.waiting, []
            for turn in waiting:
                self.receive_on(link, *turn)

    def release_queue(self, queue: QueueState) -> None:
        """It has moved to another shard, where all of it is; whoever consumes from it has been told."""
        for link in self.links.values():
            self.moving.drop_consumers(link, queue)
        self.forget_queue(queue)

    def close_queue(self, id: int) -> None:
        queue = self.queues.get(id)
        if queue is None:
            return
        for link in self.links.values():
            self.consuming.close_queue(link, queue)
        self.forget_queue(queue)
        if not queue.deleters:
            self.consuming.tell_cancelled(queue)

    def forget_queue(self, queue: QueueState) -> None:
        """It is not here any more, nor is what it has."""
        del self.queues[queue.id]
        self.waiters.forget_queue(queue.id)
        self.paces.forget_queue(queue.id)
        self.touched.pop(queue.id, None)
        self.stalls.forget(queue.id)
        self.flow.forget(queue.id)
        self.weigh(queue, 0)
        self.gauges.queue_close(queue.slot)
        self.consuming.leases.forget(queue)
        self.paging.forget(queue)
        queue.contents.close()
        queue.fenced = True

    # Turns

    def recover_links(self, records: dict[bytes, bytes]) -> None:
        """Before anything is received: what `Link.record` gave in an earlier life of this run, by identity."""
        self.records = {**records}
        for acceptor in range(self.gauges.acceptors):
            incarnation, turn = self.gauges.pair_read_safe(acceptor, self.index)
            identity = f"acceptor.{acceptor}.{incarnation}".encode()
            if incarnation and turn > safe_turn(records.get(identity)):
                self.records[identity] = safe_record(turn)

    def await_acceptors(self, acceptors: Iterable[Life]) -> None:
        """Deliver nothing before these have said what their consumers have in hand. In a later life of the shard."""
        self.recovery = Recovery(acceptors, self.now)

    def receive(
        self, identity: bytes, turn: int, version: int, heard: int, operations: list[list[Any]], parts: Sequence[Any]
    ) -> None:
        """Take in one turn of an acceptor, or of another shard."""
        link = self.links.get(identity)
        if link is None:
            role, index, incarnation = life_of(identity)
            if incarnation <= self.dead.get((role, index), 0):
                return  # the news of its death was quicker than its last words
            link = self.links[identity] = Link(identity, self.records.pop(identity, None))
        if turn == bus.HELLO:
            if link.receiver is not None:
                self.look_for_deaths(link.receiver)
                self.waiters.tell_all(link)
            link.greet()
            return
        link.hear(heard)
        self.receive_on(link, turn, version, operations, parts)

    def look_for_deaths(self, acceptor: int) -> None:
        """Take in what the gauges say of earlier lives of an acceptor, before the next one is answered: it takes its
        share of the room as if nothing of theirs were on its way.
        """
        place = self.gauges.process_read("acceptor", acceptor)
        dead = place.incarnation - (place.state != DEAD)
        if dead > self.dead.get(("acceptor", acceptor), 0):
            self.died("acceptor", acceptor, dead)

    def receive_on(
        self, link: Link, turn: int, version: int, operations: list[list[Any]], parts: Sequence[Any]
    ) -> None:
        held_back = self.recovery is not None and link in self.recovery.held
        if version > self.version or link.waiting or held_back:
            link.waiting.append((turn, version, operations, parts))
            return
        link.taken = turn
        notes = self.doing.notes
        steps = iter(enumerate(operations))
        for index, operation in steps:
            if notes:
                self.doing.takes_in(link, turn, index)
            if operation[0] == bus.PUBLISH:
                self.publish(link, parts, turn, index, operation)
            elif operation[0] == bus.SETTLE:
                self.consuming.settle(link, parts, operation)
            elif operation[0] == bus.HOLD:
                self.consuming.hold(link, parts, operation)
            elif operation[0] == bus.COMMIT:
                for _ in range(take_in(self, link, parts, turn, index, operations)):
                    next(steps)
            elif operation[0] == bus.PREPARE:
                for _ in range(prepare(self, link, parts, index, operations)):
                    next(steps)
            else:
                self.operations[operation[0]](link, *operation[1:])
        if notes:
            self.doing.has_taken_in(link, turn)

    def wall_seconds(self) -> int:
        """Whole seconds since 1970, for people and clients."""
        return (self.now + self.wall_ahead) // 1_000_000

    def finish_turn(self, now: int) -> list[tuple[bytes, list[Any]]]:
        """Deliver, enforce limits, decide flow, write the gauges; the turns to send, each with its acceptor."""
        self.now = now
        self.look_at_what_is_due()
        self.burial.budget = SLICE
        self.finish_touched()
        while self.consuming.hands.asleep and self.consuming.hands.wake(self.consuming.wake):
            self.finish_touched()
        if self.burial.blocked:
            self.burial.look()
        while self.burial.budget and self.burial.has_work():
            self.burial.work()
            self.finish_touched()
        if self.events.waiting:
            self.events.tell()
            self.finish_touched()
        if self.consuming.grants:
            self.consuming.end_grants()
        for link in self.links.values():
            if link.source.left:
                link.tell_dequeued()
        self.paging.page_out()
        self.weigh_all(now)
        self.commits.make_safe()
        if self.doing.taken:
            self.doing.has_finished()
        return [out for link in self.links.values() if (out := link.close_turn()) is not None]

    def look_at_what_is_due(self) -> None:
        if self.recovery is not None and self.recovery.is_over(self.now):
            self.recovery.end(self)
        if self.two_phase.doubts or self.two_phase.decisions:
            self.two_phase.look()
        if self.topology.moves:
            self.moving.look()
        for id in self.alarms.due(self.now):
            if id in self.queues:
                self.touch(self.queues[id])

    def finish_touched(self) -> None:
        touched, self.touched = self.touched, {}
        for queue in touched.values():
            if self.doing.taken:
                self.doing.finishes(queue.id)
            self.settle_down(queue)
            if queue.contents.dead:
                self.burial.add(queue, queue.contents.take_dead())
            if queue.id not in self.stalls.stalled:
                self.paging.look_ahead(queue)
            if queue.exceeds_window():
                self.paging.watch(queue)
            self.weigh(queue, queue.weight)
            self.flow.decide(queue, self.now)
            if self.paces.asked:
                self.paces.hand_out(queue)
            if queue.contents.expiring or queue.features.expires is not None or queue.auto_delete or queue.leases:
                gone = queue.is_left() or queue.is_forgotten(self.now)
                if gone and not queue.fenced and not queue.frozen and self.recovery is None:
                    self.requests.ask_to_delete(queue, lambda error: None)
                self.alarms.set(queue.id, queue.next_event())
        if self.doing.taken:
            self.doing.finishes(0)

    def is_ready(self) -> bool:
        """Whether its queues are as clients may see them, as far as that does not take too long."""
        return self.version >= 0 and not self.two_phase.is_undecided()

    def next_wake(self) -> int:
        """When the next turn is to be finished though nothing came: microseconds since 1970, NEVER for no such time."""
        if self.events.waiting or self.burial.has_work():
            return self.now
        recheck = self.now + RECHECK if self.burial.blocked else NEVER
        alarm = self.alarms.next() if self.recovery is None else self.recovery.deadline
        return min(alarm, self.paging.wake, recheck, self.moving.next_wake(), self.two_phase.next_wake())

    def weigh_all(self, now: int) -> None:
        """Decide whether the shard has room for more. A queue that goes makes room as well."""
        held = self.burial.weight + self.peers.held + self.two_phase.weight
        self.weight += held - self.held
        self.held = held
        stored, spilled = (self.journal.octets, self.journal.spilled) if self.journal is not None else (0, 0)
        self.gate.hold(self.weight, stored, spilled, now)

    def touch(self, queue: QueueState) -> None:
        self.touched[queue.id] = queue

    def settle_now(self, queue: QueueState) -> None:
        """What came earlier in the turn takes effect before a request that depends on it is answered."""
        self.settle_down(queue)
        self.touch(queue)

    def settle_down(self, queue: QueueState) -> None:
        self.stalls.attempt(queue, self.now, self.hand_out_and_drop)

    def deliver(self, queue: QueueState) -> None:
        """Hand out what is ready, if it can be read."""
        self.stalls.attempt(queue, self.now, self.hand_out)

    def hand_out_and_drop(self, queue: QueueState) -> None:
        self.hand_out(queue)
        if self.recovery is None and not queue.keeps_back and not queue.frozen:
            queue.drop_excess(self.stranger_limit)

    def hand_out(self, queue: QueueState) -> None:
        """Hand out what is ready; what has expired goes before, and what nobody takes may go after."""
        contents = queue.contents
        if self.recovery is not None or queue.frozen:
            return
        expires = contents.expiring and not (queue.keeps_back and not queue.ring.consumers)
        if queue.leases:
            self.consuming.leases.expire(queue)
        if expires:
            contents.expire(self.now)
        if contents.ready and queue.ring.consumers:
            for consumer, item in queue.ring.deliver(contents):
                sent = queue.as_sent(item)
                if sent is not item:
                    consumer.window -= sent.whole - item.whole
                consumer.link.deliver(consumer, sent)
            if queue.ring.starved and contents.ready:
                self.consuming.tell_hungry(queue)
        if contents.expiring:
            contents.offered()
        if expires:
            contents.expire(self.now)

    def broadcast(self, id: int, saturated: bool, epoch: int) -> None:
        for link in self.links.values():
            if link.is_acceptor:
                link.turn.operations.append([bus.FLOW, id, saturated, epoch])

    def weigh(self, queue: QueueState, weight: int) -> None:
        self.weight += weight - queue.weighed
        queue.weighed = weight

    # Operations of an acceptor

    def publish(
        self, link: Link, parts: Sequence[Any], turn: int, index: int, operation: list[Any], firm: bool = False,
        powerless: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Take in messages, each queue what it has room for; where `firm` all of them, but for `powerless` queues."""
        _, ids, part, first, count, *more = operation
        batch = bus.batch_at(parts, part)
        if more and more[0]:
            batch = batch.flagged(SENT_AGAIN)
        age = more[1] * 1000 if len(more) > 1 else 0
        if bus.loan_of(batch.contents) is not None and any(self.queues[id].lingers for id in ids if id in self.queues):
            batch = bus.taken_home(batch)
        origin = Origin(link.source, turn, index) if link.is_acceptor and not firm else None
        for id in ids:
            if isinstance(id, str):
                pass_on(self, id, batch, first, count)
                continue
            if firm or not link.is_acceptor:
                self.excuse(id, count, batch.whole(first, count))
            for refused, size in self.enqueue(id, batch, first, count, firm and id not in powerless, age, origin):
                if link.is_acceptor and not firm:
                    link.verdicts.append([bus.REJECTED, turn, index, id, refused, size])

    def enqueue(
        self, id: int, batch: Batch, first: int, count: int, firm: bool = False, age: int = 0,
        origin: Origin | None = None,
    ) -> Refused:  # fmt: skip
        """Take messages in for a queue, if there is one, that were parked for so many microseconds; what it refused."""
        queue = self.queues.get(id)
        if queue is None:
            return []
        self.touch(queue)
        if not queue.rejects:
            queue.enqueue(batch, first, count, self.now - age, origin)
            if age:
                queue.contents.offered()  # what has expired meanwhile is for no consumer
            return []
        if queue.contents.expiring:
            self.deliver(queue)  # what has expired is in nobody's way
        if not firm:
            return admit(queue, batch, first, count, self.now, self.deliver, self.oldest_unacked)
        take_all(queue, batch, first, count, self.now, self.deliver, self.oldest_unacked)
        return []

    def excuse(self, id: int, count: int, octets: int) -> None:
        """These come whatever the marks of the queue."""
        queue = self.queues.get(id)
        if queue is not None and queue.has_marks:
            queue.saturation.excuse(count, octets)

    def excuse_events(self, link: Link, ids: Sequence[int], count: int, octets: int) -> None:
        """So do those that an acceptor tells."""
        for id in ids:
            self.excuse(id, count, octets)

    def oldest_unacked(self, queue: QueueState) -> int | None:
        """The lowest sequence number that anybody has in hand; None if nobody has any."""
        holders = (c for link in self.links.values() for c in link.consumers.values() if c.queue is queue.contents)
        in_hand = [holder.outstanding.first() for holder in holders if holder.outstanding]
        undecided = self.two_phase.first_held(queue) if queue.undecided else []
        return min(in_hand + first_held(queue.leases) + undecided, default=None)

    def leave_behind(self, link: Link, id: int) -> None:
        """Those who publish to several queues do not wait for this one."""
        queue = self.queues.get(id)
        if queue is not None and not queue.left:
            queue.left = True
            self.events.note("left", queue)
            self.touch(queue)

    @looks_first
    def reply_consumer_lives(self, link: Link, request: int, name: str) -> Looking:
        found = has_reply_consumer(self, name)
        yield
        link.reply(request, found)

    def died(self, role: str, index: int, incarnation: int) -> None:
        """A process died. What an acceptor had in hand goes back to its queues."""
        for identity in [known for known in self.records if life_of(known)[:2] == (role, index)]:
            if life_of(identity)[2] <= incarnation:
                del self.records[identity]
        if self.recovery is not None:
            self.recovery.died(role, index, incarnation)
        self.moving.died(role, index, incarnation)
        self.dead[role, index] = max(incarnation, self.dead.get((role, index), 0))
        if role == "acceptor":
            self.two_phase.died(index, incarnation)
        for identity in list(self.links):
            life = life_of(identity)
            if life[:2] == (role, index) and life[2] <= incarnation:
                link = self.links.pop(identity)
                link.end()
                if self.journal is not None:
                    self.journal.link(identity, None)
                self.waiters.forget_link(link)
                self.paces.forget_link(link)
                for group in list(link.reserved):
                    release(link, group)
                consumers = list(link.consumers.values())
                for consumer in consumers:
                    self.consuming.end_consumer(link, consumer)
                log.info("peer gone", role=role, index=index, incarnation=life[2], consumers=len(consumers))
