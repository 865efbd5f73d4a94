"""A shard's part in moving queues between shards (docs/rebalancing.md; router/authority/moving.py decides).

The old home freezes the queue and hears from each acceptor, and other shard, that nothing more comes for it: an
acceptor says FENCE, is answered FENCED once nothing more goes to it and all that came is safe, and says PARTED once no
settlement comes any more.
What its consumers have in hand is put back then: they say themselves what that is. Then all is written to a file, which
the new home reads into a queue that nobody sees yet.

How the home, new or old, takes the queue up is in shard/serving/homing.py.

What is to be done outside of the core waits in `writes`, `reads` and `removals` for whoever drives it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import bus
from penstock.node.logs import get_logger
from router.model.records import COPYING, HOMING, STOPPING, Move
from router.model.records import Queue as Record
from shard.contents.priority_cy import PriorityQueue
from shard.contents.queue_cy import UNLIMITED
from shard.dead_letters.burial import Burial
from shard.queue.copying import Facts, Piece
from shard.queue.queue_state import QueueState
from shard.queue.saturation import Stop
from shard.requests.consuming import Consuming
from shard.serving.homing import Homings, Life, living, report, still_awaited
from shard.serving.paging import Paging
from shard.turns.commits import Commits
from shard.turns.link import Link, life_of
from shard.turns.peers import Peers
from shard.turns.state import ShardState

log = get_logger()

LINE_BITS = 48
"""Above them the number of a message has its priority (shard/contents/priority_cy.py)."""


class Leaving:
    """A queue whose old home this is. `awaited` still have something for it under way, the links in `parted` have not;
    it is `written` once its copy is, at `path`; `ended` when that is not needed any more.
    """

    def __init__(self, move: Move, queue: QueueState, awaited: set[Life]) -> None:
        self.move = move
        self.queue = queue
        self.awaited = awaited
        self.parted: list[Link] = []
        self.writing = False
        self.written: tuple[int, int, int] | None = None
        self.path: Path | None = None
        self.ended = False


class Arriving:
    """A queue whose new home this is going to be; `kept` once all of it is in the store."""

    def __init__(self, move: Move, queue: QueueState) -> None:
        self.move = move
        self.queue = queue
        self.kept: tuple[int, int, int] | None = None
        self.ended = False


class Moving:
    """The queues of one shard that move, by id."""

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
        self.parted: dict[int, int] = {}
        self.writes: list[Leaving] = []
        self.reads: list[Arriving] = []
        self.removals: list[Path] = []

    # What the router decides

    def follow(self, move: Move) -> None:
        """A move has come a step further; or it is said again, to a shard that has lost its router.

        That may not have seen the end of an earlier one.
        """
        known = (part.get(move.queue_id) for part in (self.leaving, self.arriving, self.homings.by_id))
        if any(part is not None and part.move.epoch != move.epoch for part in known):
            self.over(move.queue_id)
        if move.phase == HOMING:
            self.come_home(move)
            return
        self.part(move)
        if move.source == self.state.index:
            self.leave(move)
        elif move.target == self.state.index and move.phase == COPYING:
            self.arrive(move)

    def over(self, id: int) -> None:
        """A move is over."""
        self.forget_copies(id)
        self.parted.pop(id, None)
        self.homings.over(id)

    def keep_only(self, moves: dict[int, Move]) -> None:
        """After a snapshot: the end of a move may have gone unseen."""
        parts: list[dict[int, Any]] = [self.leaving, self.arriving, self.homings.by_id, self.parted]
        for id in set().union(*parts) - moves.keys():
            self.over(id)

    # The old home, and others who send to it

    def part(self, move: Move) -> None:
        """Dead letters of this shard for the queue wait from now on; the old home hears that none comes any more."""
        if move.source != self.state.index and self.parted.get(move.queue_id) != move.epoch:
            self.parted[move.queue_id] = move.epoch
            self.peers[move.source].tell(bus.PARTED, move.queue_id, move.epoch)

    def leave(self, move: Move) -> None:
        known, queue = self.leaving.get(move.queue_id), self.state.queues.get(move.queue_id)
        if known is not None and known.move.epoch == move.epoch:
            known.move = move
            if known.written is not None and move.phase == STOPPING:
                self.report_written(known)
            return
        if queue is None or move.phase != STOPPING:
            return
        queue.frozen = True
        itself = "shard", self.state.index, self.state.incarnation
        awaited = living(self.state, "acceptor") | (living(self.state, "shard") - {itself})
        self.leaving[queue.id] = Leaving(move, queue, awaited)

    def fence(self, link: Link, id: int, epoch: int) -> None:
        """Nothing more comes from an acceptor; the queue is frozen, so nothing more goes to it.

        What has come is to be safe before the queue may move: the next life of this shard, where the queue would not
        be any more, would take what is said again to have come in, and to be confirmed.
        """
        link.tell_when_safe(bus.FENCED, id, epoch)

    def has_parted(self, link: Link, id: int, epoch: int) -> None:
        """Nothing at all comes any more. What its consumers had in hand they have, and will say so to the home.

        It is put back when nobody can get it here any more.
        """
        queue, leaving = self.state.queues.get(id), self.leaving.get(id)
        if leaving is not None and leaving.move.epoch == epoch:
            leaving.parted.append(link)
            leaving.awaited.discard(life_of(link.identity))
        elif queue is not None:
            self.drop_consumers(link, queue)

    def put_back(self, leaving: Leaving) -> None:
        """What consumers have in hand who will say so to the home."""
        parted, leaving.parted = leaving.parted, []
        if self.state.queues.get(leaving.queue.id) is leaving.queue:
            for link in parted:
                self.drop_consumers(link, leaving.queue)

    def drop_consumers(self, link: Link, queue: QueueState) -> None:
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
            if queue.exclusive_consumer is consumer:
                queue.exclusive_consumer = None
            self.consuming.wake_group(consumer.group)
        self.state.touch(queue)

    def look(self) -> None:
        """At the end of a turn: go on with what nothing is awaited for any more."""
        for leaving in list(self.leaving.values()):
            busy = leaving.writing or leaving.awaited or leaving.queue.undecided
            if not busy and self.state.recovery is None:
                self.put_back(leaving)
                self.write(leaving)
        self.homings.look()

    def write(self, leaving: Leaving) -> None:
        """All is here: have it written, once what died of it is buried."""
        queue = leaving.queue
        lane = self.burial.lanes.get(queue.id)
        if lane is not None and lane.behind is not None:
            self.failed(leaving, f"its dead letters wait for room in {lane.behind}")
        elif queue.leases:
            self.failed(leaving, f"{queue.contents.unacked} of its messages are leased")
        elif queue.contents.unacked:
            self.failed(leaving, f"{queue.contents.unacked} messages are in nobody's hand")
        elif lane is None and not queue.burying:
            leaving.writing = True
            self.writes.append(leaving)

    def were_written(self, leaving: Leaving, count: int, octets: int, checksum: int) -> None:
        """The copy is complete."""
        queue = leaving.queue
        if (count, octets) != (queue.contents.ready, queue.contents.ready_whole):
            self.failed(leaving, f"{count} messages were written, {queue.contents.ready} are there")
            return
        leaving.written = count, octets, checksum
        self.report_written(leaving)

    def report_written(self, leaving: Leaving) -> None:
        """The router keeps the stop as well: if the new home dies as it takes the queue up its next life asks there."""
        if leaving.written is not None:
            stop = leaving.queue.saturation.stop()
            report(self.state, leaving.move, "written", *leaving.written, stop=[] if stop is None else [*stop])

    # The new home

    def arrive(self, move: Move) -> None:
        known, record = self.arriving.get(move.queue_id), self.state.topology.queue_by_id(move.queue_id)
        if known is not None and known.move.epoch == move.epoch:
            if known.kept is not None:
                report(self.state, move, "kept", *known.kept)
            return
        if record is None:
            return
        queue = self.state.make_queue(record)
        queue.frozen = True
        self.arriving[queue.id] = Arriving(move, queue)
        self.reads.append(self.arriving[queue.id])

    def take_in(self, arriving: Arriving, pieces: list[Piece], go_on: Callable[[], None]) -> None:
        """Some messages of the copy; `go_on` with the next when there is room for them."""
        queue = arriving.queue
        for sequence, batch, again, expiry, expiries in pieces:
            if sequence >> LINE_BITS and not isinstance(queue.contents, PriorityQueue):
                self.failed(arriving, "it has priorities, and is not to have them here")
                go_on()
                return
            queue.contents.adopt(sequence, batch, again, expiry, expiries)
            if queue.last_values is not None and batch.count == 1:
                queue.last_values.recall(queue.contents, sequence)
        self.state.weigh(queue, queue.weight)
        if self.state.weight <= self.paging.above:
            go_on()
            return

        def kept() -> None:
            if not arriving.ended and self.state.journal is not None:
                queue.contents.page_out_front(UNLIMITED, 0, spills=True)
                self.state.weigh(queue, queue.weight)
            if self.state.weight > self.paging.resume:
                self.failed(arriving, "there is no room in memory")
            go_on()

        self.commits.when_kept(kept)

    def has_all(self, arriving: Arriving, facts: Facts, checksum: int) -> None:
        """All is taken in; it is to be in the store before that counts."""
        queue, contents = arriving.queue, arriving.queue.contents
        if self.state.gauges.saturated(self.state.index):
            self.failed(arriving, "there is no room")
            return
        for position in facts.positions:
            contents.go_on_from(*position)
        if contents.delivery_limit >= 0:
            for sequence, deliveries in facts.deliveries:
                contents.came_back(sequence, deliveries)
                if queue.contents.durable and self.state.journal is not None:
                    self.state.journal.count(queue.id, sequence, deliveries)
        (
            contents.published, contents.delivered, contents.acked, contents.redelivered, contents.dropped,
            contents.published_bytes, contents.delivered_bytes,
        ) = facts.totals  # fmt: skip
        queue.counted_since = facts.counted_since
        queue.had_consumers, queue.consumed, queue.left = facts.had_consumers, facts.consumed, facts.left
        queue.saturation.govern(queue.limits.marks, self.state.now)
        if any(facts.lent):
            queue.saturation.keep_lent(*facts.lent, self.state.now)
        if facts.stop is not None:
            queue.saturation.go_on(Stop(*facts.stop))
        found = contents.ready, contents.ready_whole, checksum

        def kept() -> None:
            if not arriving.ended:
                arriving.kept = found
                report(self.state, arriving.move, "kept", *found)

        self.commits.when_kept(kept)

    def arrived(self, record: Record) -> QueueState | None:
        """The queue that has come to live here; None if it has not."""
        arriving = self.arriving.pop(record.queue_id, None)
        if arriving is None or arriving.kept is None:
            return None
        arriving.ended = True
        queue = arriving.queue
        queue.slot = record.slot
        return queue

    def failed(self, part: Leaving | Arriving, reason: str) -> None:
        """This shard cannot do its part."""
        if not part.ended:
            report(self.state, part.move, "failed", 0, 0, 0, reason)
        if isinstance(part, Leaving):
            part.writing = True
        else:
            part.ended = True

    def forget_copies(self, id: int) -> None:
        """Neither what was written nor what was read is needed any more."""
        leaving = self.leaving.pop(id, None)
        if leaving is not None:
            leaving.ended = True
            self.put_back(leaving)
            if leaving.path is not None:
                self.removals.append(leaving.path)
        arriving = self.arriving.pop(id, None)
        if arriving is not None:
            arriving.ended = True
            arriving.queue.contents.close()
            self.state.weigh(arriving.queue, 0)

    # The home

    def come_home(self, move: Move) -> None:
        """It is decided where the queue lives."""
        if move.home != self.state.index or move.outcome != "moved":
            self.forget_copies(move.queue_id)
        if move.home == self.state.index:
            self.homings.begin(move)

    # Others

    def died(self, role: str, index: int, incarnation: int) -> None:
        """A process died: nothing is awaited from it."""
        for leaving in self.leaving.values():
            leaving.awaited = still_awaited(leaving.awaited, role, index, incarnation)
        self.homings.died(role, index, incarnation)
