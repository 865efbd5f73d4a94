"""The shard without its sockets: turns of the acceptors in, turns for them out.

All turns received in one turn of the loop are applied first; `finish_turn` then delivers, enforces limits, publishes
dead letters, decides which queues are saturated, writes the gauges and closes the outgoing turns. Nothing here waits
and nothing here reads a clock: the driver sets `now` before each call, and finishes a turn at `next_wake` at the
latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from penstock import bus
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations_cy import Operation
from penstock.memory.gauges import DEAD, Gauges
from penstock.node.logs import get_logger
from penstock.settings import Settings
from router.model.grants import Grants
from shard.contents.queue_cy import NEVER
from shard.dead_letters.burial import RECHECK, SLICE, Burial
from shard.flow.events import Events
from shard.flow.flow import Flow
from shard.following import Following
from shard.handing_over import spill_all
from shard.moving.moving import Moving
from shard.queue.deletion import Stage
from shard.queue.expiry import Alarms
from shard.queue.residence import OPEN
from shard.queue.stalls import Stalls
from shard.recovered import Recovered
from shard.requests.consuming import Consuming
from shard.requests.requests import Requests
from shard.serving.deleting import Deletions
from shard.serving.homing import Homings
from shard.serving.intake import Intake
from shard.serving.leases import Leases
from shard.serving.paces import Paces
from shard.serving.paging import Paging
from shard.serving.serving import Serving
from shard.serving.traces import Traces
from shard.serving.waiters import Waiters
from shard.store.journal import Journal
from shard.transactions.transactions import Transactions
from shard.transactions.two_phase import TwoPhase
from shard.turns.checking import Checking, checks_first
from shard.turns.commits import Commits
from shard.turns.doing import Doing
from shard.turns.gate import Gate, marks_of, memory_of
from shard.turns.link import Link, incarnation_of, safe_record, safe_turn
from shard.turns.peers import Peers
from shard.turns.recovery import Recovery, living_acceptors
from shard.turns.replies import has_reply_consumer, reply_consumer
from shard.turns.reserved import release
from shard.turns.state import ShardState

log = get_logger()


class ShardCore:
    """Applies turns and finishes them. Its parts work on one `state`, which has the time, the queues and the links."""

    def __init__(
        self, index: int, gauges: Gauges, settings: Settings, now: int, starts: int = 0, journal: Journal | None = None,
        recovered: Recovered | None = None,
    ) -> None:  # fmt: skip
        self.state = state = ShardState(index, gauges, now, starts, journal)
        self.records: dict[bytes, bytes] = {}
        self.held = 0
        self.alarms = Alarms()
        self.stalls = Stalls(self.alarms)
        self.peers = Peers()
        self.gate = Gate(index, gauges, settings, now, self.broadcast)
        self.commits = Commits(state, self.gate)
        self.paging = Paging(state, self.commits, self.gate)
        self.paging.limit(*memory_of(settings, settings.shards))
        leases = Leases(state, self.stalls, self.commits.when_written)
        self.serving = Serving(state, self.stalls, leases, settings.flow.unprivileged_limit)
        self.traces = Traces(state)
        self.intake = Intake(state, self.serving, self.traces, lambda queue: self.two_phase.first_held(queue))
        self.two_phase = TwoPhase(state, self.peers, self.commits, self.intake, self.apply_known_deaths)
        if recovered is not None:
            self.two_phase.recover(recovered.parts, recovered.decisions)
        grants = Grants(state.topology)
        self.burial = Burial(state, self.peers, self.intake, grants)
        self.events = Events(state, self.peers, self.intake)
        self.flow = Flow(gauges, index, self.events, settings.flow, self.broadcast, grants.feeder)
        self.waiters = Waiters(state)
        self.paces = Paces(state, self.waiters)
        homings = Homings(state, self.serving, self.paces)
        self.deletions = Deletions(state, lambda id: self.following.close_queue(id))
        self.consuming = Consuming(state, self.serving, self.stalls, leases, homings, self.deletions, settings)
        self.moving = Moving(state, self.peers, self.burial, self.commits, self.paging, self.consuming, homings)
        self.following = Following(
            state, self.flow, self.events, self.stalls, self.paging, self.consuming, self.moving, self.waiters,
            self.paces, recovered,
        )  # fmt: skip
        self.doing = Doing(state)
        self.transactions = Transactions(state, self.serving, self.intake, self.consuming, self.two_phase)
        requests = Requests(state, self.serving, self.stalls, homings, self.deletions)
        self.operations: dict[type[Operation], Callable[[Link, Any], None]] = {
            to_shard.Replies: reply_consumer,
            to_shard.RepliesTo: self.find_reply_consumer,
            to_shard.Reserve: self.transactions.reserve,
            to_shard.Prepared: self.two_phase.prepared,
            to_shard.Decide: self.two_phase.decide,
            to_shard.Do: self.two_phase.do,
            to_shard.InDoubt: self.two_phase.on_in_doubt,
            to_shard.Outcome: self.two_phase.on_outcome,
            to_shard.Done: self.two_phase.on_done,
            to_shard.Lagging: self.mark_lagging,
            to_shard.Excused: self.intake.excuse_events,
            to_shard.Waiters: self.waiters.on_waiters,
            to_shard.Paced: self.paces.on_paced,
            to_shard.Fence: self.moving.fence,
            to_shard.Drained: self.moving.on_drained,
            to_shard.Precopied: self.moving.on_precopied,
            to_shard.Adopted: self.moving.on_adopted,
            to_shard.Reattached: homings.on_reattached,
            **requests.operations,
            **self.consuming.operations,
        }

    def share_limits(self, settings: Settings, shards: int) -> None:
        """Set the number of shards that share the node's limits."""
        self.paging.limit(*memory_of(settings, shards))
        self.gate.limit(marks_of(settings, shards), self.state.now)
        self.consuming.hands.share(shards)

    def spill_all(self) -> Iterator[int]:
        """Have everything spilled that only memory has, piece by piece; yield the bytes of each."""
        journal = self.state.journal
        return iter(()) if journal is None else spill_all(self.state, self.two_phase.parts.values(), journal)

    # Topology

    def load(self, version: int, changes: list[list[Any]]) -> None:
        """Start, or restart, from a snapshot of the topology."""
        self.following.load(version, changes)
        self.receive_waiting()

    def apply(self, version: int, changes: list[list[Any]]) -> None:
        """Apply one published change of the topology; changes older than the snapshot are already in it."""
        if version > self.state.version:
            self.following.apply(version, changes)
            self.receive_waiting()

    def receive_waiting(self) -> None:
        """Apply the turns that waited, as far as they need not go on waiting."""
        for link in list(self.state.links.values()):
            waiting, link.waiting = link.waiting, []
            for turn in waiting:
                self.receive_on(link, *turn)

    # Turns

    def recover_links(self, records: dict[bytes, bytes]) -> None:
        """Before any turn is received: set the links' records (`Link.record`) of an earlier incarnation, by
        identity.
        """
        self.records = {**records}
        for acceptor in range(self.state.gauges.acceptors):
            incarnation, turn = self.state.gauges.pair_read_safe(acceptor, self.state.index)
            identity = f"acceptor.{acceptor}.{incarnation}".encode()
            if incarnation and turn > safe_turn(records.get(identity)):
                self.records[identity] = safe_record(turn)

    def await_acceptors(self) -> None:
        """Deliver nothing before the acceptors that were there first have reported their unacked messages."""
        acceptors = living_acceptors(self.state.gauges, self.state.incarnation)
        if acceptors or self.state.incarnation > 1:
            self.state.recovery = Recovery(acceptors, self.state.now)

    def receive(
        self, identity: bytes, turn: int, version: int, last_report: int, operations: list[Operation],
        parts: Sequence[Any],
    ) -> None:  # fmt: skip
        """Apply one turn of an acceptor, or of another shard."""
        link = self.state.links.get(identity)
        if link is None:
            role, index, incarnation = incarnation_of(identity)
            if incarnation <= self.state.dead.get((role, index), 0):
                return  # the news of its death overtook its last turns
            link = self.state.links[identity] = Link(identity, self.records.pop(identity, None))
        if turn == bus.HELLO:
            if link.receiver is not None:
                self.apply_known_deaths(link.receiver)
                self.waiters.send_all(link)
            link.greet()
            return
        link.report_received(last_report)
        self.receive_on(link, turn, version, operations, parts)

    def apply_known_deaths(self, acceptor: int) -> None:
        """Apply the gauges' record of dead incarnations of an acceptor before its next one is answered: the next one
        takes its share of the room as if none of their messages were in flight.
        """
        place = self.state.gauges.process_read("acceptor", acceptor)
        dead = place.incarnation - (place.state != DEAD)
        if dead > self.state.dead.get(("acceptor", acceptor), 0):
            self.died("acceptor", acceptor, dead)

    def receive_on(
        self, link: Link, turn: int, version: int, operations: list[Operation], parts: Sequence[Any]
    ) -> None:
        """Apply a turn, or let it wait for the topology, for earlier turns, or for the end of recovery."""
        held_back = self.state.recovery is not None and link in self.state.recovery.reported
        if version > self.state.version or link.waiting or held_back:
            link.waiting.append((turn, version, operations, parts))
            return
        link.received = turn
        recording = self.doing.recording
        steps = iter(enumerate(operations))
        for index, operation in steps:
            if recording:
                self.doing.takes_in(link, turn, index)
            match operation:
                case to_shard.Publish():
                    self.intake.publish(link, parts, turn, index, operation)
                case to_shard.Settle():
                    self.consuming.settle(link, parts[operation.part])
                case to_shard.Hold():
                    self.consuming.on_hold(link, operation.holders, parts[operation.part])
                case to_shard.Commit():
                    publishes = [cast(to_shard.Publish, next(steps)[1]) for _ in range(operation.publishes)]
                    self.transactions.take_in(link, parts, turn, index, operation, publishes)
                case to_shard.Prepare():
                    publishes = [cast(to_shard.Publish, next(steps)[1]) for _ in range(operation.publishes)]
                    self.transactions.prepare(link, parts, operation, publishes)
                case _:
                    self.operations[type(operation)](link, operation)
        if recording:
            self.doing.has_taken_in(link, turn)

    def finish_turn(self, now: int) -> list[tuple[bytes, list[Any]]]:
        """Deliver, enforce limits, decide flow, write the gauges; return the turns to send, each with its acceptor."""
        self.state.now = now
        self.handle_due()
        self.burial.budget = SLICE
        self.finish_touched()
        while self.consuming.hands.asleep and self.consuming.hands.wake(self.consuming.wake):
            self.finish_touched()
        while self.consuming.feed():
            self.finish_touched()
        if self.burial.blocked:
            self.burial.reopen_lanes()
        while self.burial.budget and self.burial.has_work():
            self.burial.work()
            self.finish_touched()
        if self.events.waiting:
            self.events.publish_waiting()
            self.finish_touched()
        if self.consuming.grants:
            self.consuming.end_grants()
        for link in self.state.links.values():
            if link.source.left:
                link.send_dequeued()
        self.paging.page_out()
        self.weigh_all(now)
        self.commits.make_safe()
        if self.traces.is_following():
            self.traces.follow()
        if self.doing.received:
            self.doing.has_finished()
        return [out for link in self.state.links.values() if (out := link.close_turn()) is not None]

    def handle_due(self) -> None:
        """End the recovery if it is over, go on with transactions and moves, and touch the queues whose alarms are
        due.
        """
        if self.state.recovery is not None and self.state.recovery.is_over(self.state.now):
            self.end_recovery(self.state.recovery)
        if self.two_phase.doubts or self.two_phase.decisions:
            self.two_phase.repeat_unanswered()
        if self.state.topology.moves:
            self.moving.advance()
        for id in self.alarms.due(self.state.now):
            if id in self.state.queues:
                self.state.touch(self.state.queues[id])

    def end_recovery(self, recovery: Recovery) -> None:
        """End the recovery, with unacked messages reported or awaited for long enough: turns that waited go on."""
        self.state.recovery = None
        for queue in self.state.queues.values():
            if recovery.awaited and not queue.ring.consumers:
                # Its consumers may still come: it must not be deleted for lack of them.
                queue.usage.had_consumers = False
            if queue.ring.consumers:
                queue.ring.order()
                self.serving.elect(queue)
            self.state.touch(queue)
        self.receive_waiting()

    def finish_touched(self) -> None:
        """Deliver, page, weigh and decide flow for each touched queue, and ask for the deletion of those that
        expired.
        """
        touched, self.state.touched = self.state.touched, {}
        for queue in touched.values():
            if self.doing.received:
                self.doing.finishes(queue.id)
            self.serving.serve(queue)
            if queue.contents.dead:
                self.burial.add(queue, queue.contents.take_dead())
            if queue.contents.paged and queue.id not in self.stalls.stalled:
                self.paging.look_ahead(queue)
            if queue.exceeds_window():
                self.paging.watch(queue)
            self.state.weigh(queue, queue.weight)
            self.flow.decide(queue, self.state.now)
            if self.paces.asked:
                self.paces.hand_out(queue)
            if queue.contents.expiring or queue.features.expires is not None or queue.auto_delete or queue.leases:
                gone = queue.is_left() or queue.is_forgotten(self.state.now)
                if (
                    gone
                    and queue.deletion.stage is Stage.KEPT
                    and queue.residence is OPEN
                    and self.state.recovery is None
                ):
                    self.deletions.ask(queue, lambda error: None)
                self.alarms.set(queue.id, queue.next_event())
        if self.doing.received:
            self.doing.finishes(0)

    def is_ready(self) -> bool:
        """Whether clients may see the queues: the topology is known and no transaction
        is worth waiting for.
        """
        return self.state.version >= 0 and not self.two_phase.is_undecided()

    def next_wake(self) -> int:
        """When the next turn must be finished without input, in microseconds since 1970; NEVER if not at all."""
        if self.events.waiting or self.burial.has_work():
            return self.state.now
        recheck = self.state.now + RECHECK if self.burial.blocked else NEVER
        alarm = self.alarms.next() if self.state.recovery is None else self.state.recovery.deadline
        return min(alarm, self.paging.wake, recheck, self.moving.homings.next_wake(), self.two_phase.next_wake())

    def weigh_all(self, now: int) -> None:
        """Report the use of memory and store to the gate. The deletion of a queue frees room as well."""
        held = self.burial.weight + self.peers.held + self.two_phase.weight
        self.state.weight += held - self.held
        self.held = held
        stored, spilled = (
            (self.state.journal.nbytes, self.state.journal.spilled) if self.state.journal is not None else (0, 0)
        )
        self.gate.update_use(self.state.weight, stored, spilled, now)

    def broadcast(self, id: int, saturated: bool, epoch: int) -> None:
        """Send Flow to all acceptors."""
        for link in self.state.links.values():
            if link.is_acceptor:
                link.turn.add(to_acceptor.Flow(id, saturated, epoch, self.state.now))

    # Operations of acceptors

    def mark_lagging(self, link: Link, lagging: to_shard.Lagging) -> None:
        """Mark a queue as lagging: publishes to several queues do not wait for it."""
        queue = self.state.queues.get(lagging.queue)
        if queue is not None and not queue.exemption.lagging:
            queue.exemption.lagging = True
            self.events.record("lagging", queue)
            self.state.touch(queue)

    @checks_first
    def find_reply_consumer(self, link: Link, asked: to_shard.RepliesTo) -> Checking:
        """Reply whether a reply consumer is attached."""
        found = has_reply_consumer(self.state, asked.name)
        yield
        link.reply(asked.request, found)

    def died(self, role: str, index: int, incarnation: int) -> None:
        """A process has died. Unacked messages of an acceptor's consumers are requeued."""
        for identity in [known for known in self.records if incarnation_of(known)[:2] == (role, index)]:
            if incarnation_of(identity)[2] <= incarnation:
                del self.records[identity]
        if self.state.recovery is not None:
            self.state.recovery.died(role, index, incarnation)
        self.moving.died(role, index, incarnation)
        self.state.dead[role, index] = max(incarnation, self.state.dead.get((role, index), 0))
        if role == "acceptor":
            self.two_phase.died(index, incarnation)
        for identity in list(self.state.links):
            ended = incarnation_of(identity)
            if ended[:2] == (role, index) and ended[2] <= incarnation:
                link = self.state.links.pop(identity)
                link.end()
                if self.state.journal is not None:
                    self.state.journal.link(identity, None)
                self.waiters.forget_link(link)
                self.paces.forget_link(link)
                for group in list(link.reserved):
                    release(link, group)
                consumers = list(link.consumers.values())
                for consumer in consumers:
                    self.consuming.end_consumer(link, consumer)
                log.info("peer gone", role=role, index=index, incarnation=ended[2], consumers=len(consumers))
