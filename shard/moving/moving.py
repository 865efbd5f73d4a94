"""A shard's part in moving queues between shards (docs/rebalancing.md; router/authority/moving.py decides).

**Theory of operation.** The router drives a move through PRECOPYING, STOPPING, COPYING and HOMING; a shard follows each
step and reports. *Pre-copy:* while the queue is open, its old home writes it to a file, round by round
(shard/queue/copying.py), and the new home reads the file into a queue that is not visible yet. A round follows once the
new home has stored the one before. When little has arrived meanwhile, or after ROUNDS, the router is asked to stop the
queue, so clients wait for the last round only. *Old home:* it freezes the queue and waits until every living acceptor
and other shard is drained, that is, sends it nothing more for the queue. An acceptor sends Fence; the answer Fenced
comes once everything it sent is safe; the acceptor's Drained says that no settlement follows either. Other shards,
which send only dead letters, send Drained at once. The unacked messages of the drained acceptors are then put back
among the ready ones, because each acceptor names them again at the home, and the last round is written. *New home:* it
reads that, removes what was settled meanwhile, stores the queue, and reports count, bytes and checksum, which the
router compares with those written. *Home:* whichever shard the router decides on waits until acceptors have re-attached
their consumers (shard/serving/homing.py).

**Invariant.** At any time exactly one shard, the one in the router's record, owns the queue, and it has every message
that is not settled. The copy counts for nothing before that record changes, and the old home deletes nothing before.
The queue is frozen from STOPPING until it is re-attached, so nothing is delivered, expires or is dropped while two
shards have it. Everything sent to the old home is safe before it is drained, so its next incarnation is sent none of it
again. Reports and operations name the epoch of their move, and those of another epoch are ignored.

Work outside of the core waits in `writes`, `reads` and `removals` for the driver of the core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.bus import to_acceptor, to_shard
from penstock.node.logs import get_logger
from router.model.records import COPYING, HOMING, PRECOPYING, STOPPING, Move
from router.model.records import Queue as Record
from shard.contents.priority_cy import PriorityQueue
from shard.contents.queue_cy import UNLIMITED
from shard.dead_letters.burial import Burial
from shard.moving.copy_stage import COPY, CopyEvent, CopyStage
from shard.queue.copying import LINE_BITS, Facts, Piece, Writer, can_precopy
from shard.queue.queue_state import QueueState
from shard.queue.residence import Step
from shard.queue.saturation import Stop
from shard.requests.consuming import Consuming
from shard.serving.homing import Homings, Incarnation, living_incarnations, report, still_awaited
from shard.serving.paging import Paging
from shard.turns.commits import Commits
from shard.turns.link import Link, incarnation_of
from shard.turns.peers import Peers
from shard.turns.state import ShardState

log = get_logger()

WHOLE = 1 << 62
"""More bytes than any copy has."""
ROUNDS = 10
"""Rounds of pre-copy after which the queue is stopped, however much is left: producers may be faster than the copy."""


class Leaving:
    """A queue whose old home is this shard. `awaited` may still send something for it; the links in `drained` are
    drained. Its `copy` is at a `stage`, in one of its `rounds`; it is `busy` while a round is written. The new home has
    `adopted` so many bytes of it, -1 before its first answer. `written` has count, bytes and checksum of a complete
    one.
    """

    def __init__(self, move: Move, queue: QueueState) -> None:
        self.move = move
        self.queue = queue
        self.awaited: set[Incarnation] = set()
        self.drained: list[Link] = []
        self.stage = CopyStage.AHEAD
        self.copy: Writer | None = None
        self.rounds = 0
        self.busy = False
        self.adopted = -1
        self.written = (0, 0, 0)


class Arriving:
    """A queue whose new home is to be this shard. Reading its copy is at a `stage`: up to the byte `readable`, then
    `read_on` waits for more. `kept` has count, bytes and checksum once all of it is in the store.
    """

    def __init__(self, move: Move, queue: QueueState) -> None:
        self.move = move
        self.queue = queue
        self.stage = CopyStage.IN_PROGRESS
        self.readable = 0
        self.read_on: Callable[[], None] | None = None
        self.kept = (0, 0, 0)

    def may_read(self, nbytes: int) -> None:
        """Have the copy read on to a byte."""
        self.readable = max(nbytes, self.readable)
        self.resume()

    def resume(self) -> None:
        """Have what waits for more of the copy look again."""
        read_on, self.read_on = self.read_on, None
        if read_on is not None:
            read_on()


class Moving:
    """The moving queues of one shard, by id."""

    def __init__(
        self, state: ShardState, peers: Peers, burial: Burial, commits: Commits, paging: Paging, consuming: Consuming,
        homings: Homings,
    ) -> None:  # fmt: skip
        self.state = state
        self.peers = peers
        self.burial = burial
        self.commits = commits
        self.paging = paging
        self.consuming = consuming
        self.homings = homings
        self.leaving: dict[int, Leaving] = {}
        self.arriving: dict[int, Arriving] = {}
        self.drained: dict[int, int] = {}
        self.writes: list[Leaving] = []
        self.reads: list[Arriving] = []
        self.removals: list[Writer] = []

    # Decisions of the router

    def apply(self, move: Move) -> None:
        """Follow a step of a move, or the repetition of one after the router was lost.

        The end of an earlier move may have gone unseen: it is then ended first.
        """
        known = (part.get(move.queue_id) for part in (self.leaving, self.arriving, self.homings.by_id))
        if any(part is not None and part.move.epoch != move.epoch for part in known):
            self.end_move(move.queue_id)
        if move.phase == HOMING:
            self.come_home(move)
            return
        if move.phase != PRECOPYING:
            self.announce_drained(move)
        if move.source == self.state.index:
            self.begin_leaving(move)
        elif move.target == self.state.index and move.phase != STOPPING:
            self.begin_arriving(move)

    def end_move(self, id: int) -> None:
        """A move is over: forget it."""
        self.forget_copies(id)
        self.drained.pop(id, None)
        self.homings.end_move(id)

    def keep_only(self, moves: dict[int, Move]) -> None:
        """After a snapshot: end the moves that are not in it."""
        parts: list[dict[int, Any]] = [self.leaving, self.arriving, self.homings.by_id, self.drained]
        for id in set().union(*parts) - moves.keys():
            self.end_move(id)

    # The old home, and others that send to it

    def announce_drained(self, move: Move) -> None:
        """Report to the old home that this shard is drained (Drained): its dead letters for a moving queue wait
        (DeadLetterCapacity).
        """
        if move.source != self.state.index and self.drained.get(move.queue_id) != move.epoch:
            self.drained[move.queue_id] = move.epoch
            self.peers[move.source].add_operation(to_shard.Drained(move.queue_id, move.epoch))

    def begin_leaving(self, move: Move) -> None:
        """Copy a queue that is to leave while it is open, and freeze it once it is stopped; or repeat a report."""
        leaving, queue = self.leaving.get(move.queue_id), self.state.queues.get(move.queue_id)
        if leaving is None or leaving.move.epoch != move.epoch:
            if queue is None or move.phase == COPYING:
                return
            leaving = self.leaving[move.queue_id] = Leaving(move, queue)
        leaving.move = move
        if move.phase == STOPPING and leaving.stage is CopyStage.AHEAD:
            self.freeze(leaving)
        elif move.phase == STOPPING and leaving.stage is CopyStage.COMPLETE:
            self.report_written(leaving)
        elif move.phase == PRECOPYING:
            self.precopy(leaving)

    def precopy(self, leaving: Leaving) -> None:
        """Have the next round of a copy written once the new home has adopted the one before; or report that the queue
        can be stopped. A new home that does not answer holds nobody.
        """
        copy, precopies = leaving.copy, can_precopy(leaving.queue)
        awaited = leaving.rounds > 0 or not precopies
        written = 0 if copy is None else copy.size
        if leaving.stage is not CopyStage.AHEAD or leaving.busy or (awaited and leaving.adopted < written):
            return
        if not precopies or leaving.rounds >= ROUNDS or (copy is not None and copy.is_near()):
            if hindrance := self.hindrance(leaving.queue):
                self.failed(leaving, hindrance)
            else:
                report(self.state, leaving.move, "precopied")
        else:
            leaving.rounds += 1
            self.have_written(leaving)

    def have_written(self, leaving: Leaving) -> None:
        """Have the next round of a copy written."""
        leaving.busy = True
        self.writes.append(leaving)

    def written_ahead(self, leaving: Leaving, nbytes: int) -> None:
        """So many bytes of the copy of an open queue are written: the new home may read them."""
        move = leaving.move
        self.peers[move.target].add_operation(to_shard.Precopied(move.queue_id, move.epoch, nbytes))

    def on_precopied(self, _link: Link, precopied: to_shard.Precopied) -> None:
        """More of a copy can be read."""
        arriving = self.arriving.get(precopied.queue)
        if arriving is not None and arriving.move.epoch == precopied.epoch:
            arriving.may_read(precopied.nbytes)

    def on_adopted(self, _link: Link, adopted: to_shard.Adopted) -> None:
        """The new home has so much of a copy."""
        leaving = self.leaving.get(adopted.queue)
        if leaving is not None and leaving.move.epoch == adopted.epoch:
            leaving.adopted = adopted.nbytes
            self.precopy(leaving)

    def freeze(self, leaving: Leaving) -> None:
        """Freeze a queue that is to leave, and await all that may still send something for it."""
        leaving.queue.move(Step.LEAVE)
        itself = "shard", self.state.index, self.state.incarnation
        awaited = living_incarnations(self.state, "acceptor") | living_incarnations(self.state, "shard")
        awaited |= {incarnation_of(link.identity) for link in self.state.links.values()}  # whose deaths come later
        awaited.discard(itself)
        leaving.awaited = awaited
        leaving.stage = COPY.after(leaving.stage, CopyEvent.STOP)

    def fence(self, link: Link, fence: to_shard.Fence) -> None:
        """An acceptor sends nothing more; the queue is frozen, so nothing more goes to the acceptor either.

        Fenced waits until everything received is safe. Otherwise the next incarnation of this shard would accept a
        resent publish for a queue that it may not have, and the publish would be confirmed though lost.
        """
        link.send_when_safe(to_acceptor.Fenced(fence.queue, fence.epoch))

    def on_drained(self, link: Link, drained: to_shard.Drained) -> None:
        """An acceptor is drained. Its consumers keep their unacked messages and will name them at the home.

        They are put back here when no delivery from this shard is possible any more.
        """
        queue, leaving = self.state.queues.get(drained.queue), self.leaving.get(drained.queue)
        if leaving is not None and leaving.move.epoch == drained.epoch:
            leaving.drained.append(link)
            leaving.awaited.discard(incarnation_of(link.identity))
        elif queue is not None:
            self.drop_consumers(link, queue)

    def put_back(self, leaving: Leaving) -> None:
        """Put back the unacked messages of acceptors that are drained."""
        drained, leaving.drained = leaving.drained, []
        if self.state.queues.get(leaving.queue.id) is leaving.queue:
            for link in drained:
                self.drop_consumers(link, leaving.queue)

    def drop_consumers(self, link: Link, queue: QueueState) -> None:
        """Detach the consumers of an acceptor from a queue, and put back their unacked messages."""
        for consumer in [c for c in link.consumers.values() if c.queue is queue.contents]:
            if consumer.lease is not None:
                self.consuming.leases.leave(queue, consumer)
            else:
                consumer.give_back_all()
            link.forget(consumer)
            if consumer.cancelled:
                consumer.rest()
            else:
                self.consuming.leave_ring(queue, consumer)
            if queue.ring.exclusive is consumer:
                queue.ring.exclusive = None
            self.consuming.wake_group(consumer.group)
        self.state.touch(queue)

    def advance(self) -> None:
        """At the end of a turn: go on with the moves that await nothing more."""
        for leaving in list(self.leaving.values()):
            due = leaving.stage is CopyStage.DUE and not leaving.awaited and not leaving.queue.pending.undecided
            if due and self.state.recovery is None:
                self.put_back(leaving)
                self.write(leaving)
        self.homings.end_complete()

    def write(self, leaving: Leaving) -> None:
        """Everything is here: have the copy written once the dead are buried, or report that the queue cannot be
        moved.
        """
        queue = leaving.queue
        if hindrance := self.hindrance(queue):
            self.failed(leaving, hindrance)
        elif unassigned := queue.contents.unacked - sum(len(lease.held) for lease in queue.leases.values()):
            self.failed(leaving, f"{unassigned} unacked messages are unassigned")
        elif self.burial.lanes.get(queue.id) is None and not queue.unburied.burying:
            leaving.stage = COPY.after(leaving.stage, CopyEvent.BEGIN)
            if not leaving.busy:
                self.have_written(leaving)

    def hindrance(self, queue: QueueState) -> str:
        """Return why a queue cannot leave at present; "" if it can."""
        lane = self.burial.lanes.get(queue.id)
        return "" if lane is None or lane.behind is None else f"its dead letters wait for room in {lane.behind}"

    def copy_written(self, leaving: Leaving, checksum: int) -> None:
        """The copy is complete: report what is in it, unless it is not needed any more."""
        if leaving.stage is CopyStage.OVER:
            return
        leaving.stage = COPY.after(leaving.stage, CopyEvent.COMPLETE)
        leaving.written = *size_of(leaving.queue), checksum
        self.report_written(leaving)

    def report_written(self, leaving: Leaving) -> None:
        """Report the copy. The router keeps the stop too: if the new home dies during HOMING, its next incarnation
        needs it.
        """
        stop = leaving.queue.saturation.stop()
        report(self.state, leaving.move, "written", *leaving.written, stop=[] if stop is None else [*stop])

    # The new home

    def begin_arriving(self, move: Move) -> None:
        """Begin to read a queue that may come to live here, all of it once it is written; or report again that it is
        kept.
        """
        arriving, record = self.arriving.get(move.queue_id), self.state.topology.queue_by_id(move.queue_id)
        if arriving is None or arriving.move.epoch != move.epoch:
            if record is None:
                return
            queue = self.state.make_queue(record)
            queue.move(Step.ARRIVE)
            arriving = self.arriving[queue.id] = Arriving(move, queue)
            self.reads.append(arriving)
        arriving.move = move
        if move.phase == COPYING and arriving.stage is CopyStage.COMPLETE:
            report(self.state, move, "kept", *arriving.kept)
        elif move.phase == COPYING:
            arriving.may_read(WHOLE)

    def is_read(self, arriving: Arriving, nbytes: int, read_on: Callable[[], None]) -> None:
        """All that is written of a copy is read, so many bytes: tell the old home once it is stored, and have `read_on`
        called when there is more.
        """
        move = arriving.move
        arriving.read_on = read_on

        def kept() -> None:
            self.peers[move.source].add_operation(to_shard.Adopted(move.queue_id, move.epoch, nbytes))

        self.commits.when_kept(kept)
        if nbytes < arriving.readable:
            arriving.resume()

    def adopt_pieces(self, arriving: Arriving, pieces: list[Piece], read_on: Callable[[], None]) -> None:
        """Adopt some messages of the copy; `read_on` reads the next ones when there is room for them."""
        queue = arriving.queue
        for sequence, batch, again, expiry, expiries in pieces:
            if sequence >> LINE_BITS and not isinstance(queue.contents, PriorityQueue):
                self.failed(arriving, "its messages have priorities, the queue has none here")
                read_on()
                return
            queue.contents.adopt(sequence, batch, again, expiry, expiries)
            if queue.last_values is not None and batch.count == 1:
                queue.last_values.recall(queue.contents, sequence)
        self.state.weigh(queue, queue.weight)
        if self.state.weight <= self.paging.above:
            read_on()
            return

        def kept() -> None:
            if arriving.stage is CopyStage.IN_PROGRESS and self.state.journal is not None:
                queue.contents.page_out_front(UNLIMITED, 0, spills=True)
                self.state.weigh(queue, queue.weight)
            if self.state.weight > self.paging.resume:
                self.failed(arriving, "there is no room in memory")
            read_on()

        self.commits.when_kept(kept)

    def adopt_facts(self, arriving: Arriving, facts: Facts, checksum: int) -> None:
        """All messages are adopted: take over the facts, and report once everything is in the store."""
        queue, contents = arriving.queue, arriving.queue.contents
        if self.state.gauges.saturated(self.state.index):
            self.failed(arriving, "there is no room")
            return
        for first, end in facts.gone:
            contents.discard(first, end - first)
        for position in facts.positions:
            contents.go_on_from(*position)
        if contents.delivery_limit >= 0:
            for sequence, deliveries in facts.deliveries:
                contents.came_back(sequence, deliveries)
                if queue.contents.durable and self.state.journal is not None:
                    self.state.journal.count(queue.id, sequence, deliveries)
        for id, record in facts.leases:
            self.consuming.leases.adopt(queue, id, record)
        totals = contents.totals
        (
            totals.published, totals.delivered, totals.acked, totals.redelivered, totals.dropped,
            totals.published_bytes, totals.delivered_bytes,
        ) = facts.totals  # fmt: skip
        usage = queue.usage
        usage.counted_since = facts.counted_since
        usage.had_consumers, usage.consumed = facts.had_consumers, facts.consumed
        queue.exemption.lagging = facts.lagging
        queue.saturation.set_marks(queue.limits.marks, self.state.now)
        if any(facts.lent):
            queue.saturation.keep_lent(*facts.lent, self.state.now)
        if facts.stop is not None:
            queue.saturation.continue_stop(Stop(*facts.stop))
        found = *size_of(queue), checksum

        def kept() -> None:
            if arriving.stage is CopyStage.IN_PROGRESS:
                arriving.stage, arriving.kept = COPY.after(arriving.stage, CopyEvent.COMPLETE), found
                report(self.state, arriving.move, "kept", *found)

        self.commits.when_kept(kept)

    def arrived(self, record: Record) -> QueueState | None:
        """The queue that has come to live here; None if it has not."""
        arriving = self.arriving.pop(record.queue_id, None)
        if arriving is None or arriving.stage is not CopyStage.COMPLETE:
            return None
        arriving.stage = COPY.after(arriving.stage, CopyEvent.END)
        queue = arriving.queue
        queue.slot = record.slot
        return queue

    def failed(self, part: Leaving | Arriving, reason: str) -> None:
        """This shard cannot do its part: report why, once."""
        if part.stage not in (CopyStage.FAILED, CopyStage.OVER):
            part.stage = COPY.after(part.stage, CopyEvent.FAIL)
            report(self.state, part.move, "failed", 0, 0, 0, reason)

    def forget_copies(self, id: int) -> None:
        """Neither the copy nor the queue read from it is needed any more."""
        leaving = self.leaving.pop(id, None)
        if leaving is not None:
            leaving.stage = COPY.after(leaving.stage, CopyEvent.END)
            self.put_back(leaving)
            if leaving.copy is not None and not leaving.busy:
                self.removals.append(leaving.copy)
        arriving = self.arriving.pop(id, None)
        if arriving is not None:
            arriving.stage = COPY.after(arriving.stage, CopyEvent.END)
            self.consuming.leases.forget(arriving.queue)
            arriving.queue.contents.close()
            self.state.weigh(arriving.queue, 0)
            arriving.resume()

    # The home

    def come_home(self, move: Move) -> None:
        """The router has decided where the queue lives."""
        if move.home != self.state.index or move.outcome != "moved":
            self.forget_copies(move.queue_id)
        if move.home == self.state.index:
            self.homings.begin(move)

    # Deaths

    def died(self, role: str, index: int, incarnation: int) -> None:
        """A process has died: await nothing from it."""
        for leaving in self.leaving.values():
            leaving.awaited = still_awaited(leaving.awaited, role, index, incarnation)
        self.homings.died(role, index, incarnation)


def size_of(queue: QueueState) -> tuple[int, int]:
    """The number of messages of a queue without consumers, and their whole bytes."""
    contents = queue.contents
    return contents.ready + contents.unacked, contents.ready_whole + contents.unacked_whole
