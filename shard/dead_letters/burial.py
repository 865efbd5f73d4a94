"""Dead-lettering: dead messages of a shard's queues are published again, to the exchange that their queue names.

Messages are routed one by one, a limited number in each turn; those that wait for a later turn count in the memory of
the shard. Queues of this shard get their dead letters at once, queues of other shards through their shard
(shard/turns/peers.py). The store forgets the dead once their letters are safe, in the same commit as letters for queues
of this shard. A dead letter is lost if it finds no exchange, no queue, or only a full queue that refuses.

      open ──(a queue on the way of the next letter is full under flow)──▶ blocked
      open ◀──(it has room, is gone, or may not hold producers)── blocked

The letters of each queue wait in order, and independently of other queues'. While they are blocked they count in the
depth of the queue where they died, so that its producers are held in the end; beyond KEPT_BACK bytes, messages that
would expire or be dropped there stay in the queue.

Delayed messages that are due (router/model/delaying.py) take the same way, to their exchange. As any number of them may
be due at once, they stay in their delay queue beyond KEPT_BACK bytes that wait here, blocked or not.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache, partial

from penstock.amqp.properties import PROPERTIES_AT, decode_properties
from penstock.batch.batch_cy import HAS_EXPIRATION, HAS_HEADERS, SENT_AGAIN, BatchBuilder
from penstock.node.logs import get_logger
from router.model.grants import Grants
from router.model.placement import by_shard
from router.model.records import Queue
from router.model.topics_cy import Work
from router.model.working import at_once
from shard.contents.delay_cy import DUE
from shard.contents.queue_cy import REJECTED
from shard.contents.queue_cy import Queue as Contents
from shard.contents.segment_cy import Range
from shard.dead_letters.dead_letter_capacity import DeadLetterCapacity
from shard.queue.dead_letters import REASONS, DeadLetter, Death, dead_letter
from shard.queue.due import due_letter
from shard.queue.queue_state import QueueState
from shard.serving.intake import Intake
from shard.turns.peers import Peers
from shard.turns.state import ShardState

# Messages in one turn: some milliseconds.
SLICE = 256

# Bytes of blocked letters beyond which messages stay in their queue if they need not die yet.
KEPT_BACK = 1024 * 1024
# Microseconds between checks whether queues of other shards have room for blocked letters.
RECHECK = 100_000

Targets = tuple[Queue, ...]

log = get_logger()


class Grave:
    """Some dead messages of a range, whose letters are not safe yet on `awaited` other shards, or not all sent."""

    __slots__ = ("awaited", "contents", "count", "first", "item", "queue")

    def __init__(self, queue: QueueState, item: Range, first: int, count: int) -> None:
        self.queue = queue
        self.contents: Contents = queue.contents
        self.item = item
        self.first = first
        self.count = count
        self.awaited = 1
        queue.unburied.burying += 1

    def one_safe(self) -> None:
        """One more shard has its letters safe, or all are sent; after the last, the dead are buried."""
        self.awaited -= 1
        if not self.awaited:
            self.queue.unburied.burying -= 1
            self.contents.buried(self.item, self.first, self.count)


class Lane:
    """The dead of one queue, in order; `done` of the first item are buried. `count`, `nbytes` (of bodies) and `whole`
    are the sums of those waiting.

    `behind` is the queue that has no room for the next letter of `size` whole bytes, as of that `version` of the
    topology.
    """

    __slots__ = ("behind", "count", "done", "items", "nbytes", "queue", "since", "size", "version", "whole")

    def __init__(self, queue: QueueState) -> None:
        self.queue = queue
        self.items: deque[tuple[int, Range]] = deque()
        self.done = 0
        self.count = 0
        self.nbytes = self.whole = 0
        self.behind: Queue | None = None
        self.size = 0
        self.since = 0
        self.version = 0


class Burial:
    """The dead letters of one shard: waiting, then routed. `weight` is the memory of those waiting.

    `open` lanes are worked on in turn. `kept_back`: whole bytes that may wait here of a queue before it keeps further
    messages.
    """

    def __init__(self, state: ShardState, peers: Peers, intake: Intake, grants: Grants) -> None:
        self.state = state
        self.peers = peers
        self.intake = intake
        self.grants = grants
        self.room = DeadLetterCapacity(state)
        self.lanes: dict[int, Lane] = {}
        self.open: OrderedDict[Lane, None] = OrderedDict()
        self.blocked: dict[Lane, None] = {}
        self.weight = 0
        self.budget = SLICE
        self.kept_back = KEPT_BACK

    def add(self, queue: QueueState, dead: list[tuple[int, Range]]) -> None:
        """Add the dead of a queue."""
        lane = self.lanes.get(queue.id)
        if lane is None:
            lane = self.lanes[queue.id] = Lane(queue)
            self.open[lane] = None
        for item in dead:
            lane.items.append(item)
            lane.count += item[1].count
            lane.nbytes += item[1].body_bytes
            lane.whole += item[1].whole
            self.weight += item[1].whole
        if lane.behind is not None:
            self.count_blocked(lane)
        else:
            self.keep_back(lane)

    def has_work(self) -> bool:
        """Whether there is work that need not wait for another shard, or for room."""
        return bool(self.open) and not self.peers.full()

    def work(self) -> None:
        """Publish waiting letters within the budget of this turn; the caller renews the budget with each turn."""
        while self.open and self.budget > 0 and not self.peers.full():
            lane, _ = self.open.popitem(last=False)
            reason, item = lane.items[0]
            count = min(item.count - lane.done, self.budget)
            grave = Grave(lane.queue, item, lane.done, count)
            self.bury(lane, reason, grave)
            grave.one_safe()
            lane.done += grave.count
            lane.count -= grave.count
            self.budget -= max(grave.count, 1)
            if lane.done == item.count:
                lane.items.popleft()
                lane.nbytes -= item.body_bytes
                lane.whole -= item.whole
                self.weight -= item.whole
                lane.done = 0
            if lane.behind is not None:
                self.block(lane)
                continue
            if lane.queue.keeps_back and lane.whole <= self.kept_back:
                self.let_go_on(lane.queue)
            if lane.items:
                self.open[lane] = None
            else:
                del self.lanes[lane.queue.id]

    def keep_back(self, lane: Lane) -> None:
        """Decide whether further messages stay in their queue: if too much is blocked, or waits for its exchange."""
        queue = lane.queue
        queue.keeps_back = (lane.whole if queue.delays is not None else queue.unburied.whole) > self.kept_back

    def let_go_on(self, queue: QueueState) -> None:
        """Let further messages of a queue leave it."""
        queue.keeps_back = False
        if queue.id in self.state.queues:
            self.state.touch(queue)

    # Room

    def block(self, lane: Lane) -> None:
        """Block a lane whose next letter finds no room."""
        self.blocked[lane] = None
        lane.since = self.state.now
        lane.version = self.state.version
        self.count_blocked(lane)
        log.info("dead letters wait for room", queue=lane.queue.name, vhost=lane.queue.vhost, messages=lane.count,
                 full=str(lane.behind))  # fmt: skip

    def count_blocked(self, lane: Lane) -> None:
        """Count blocked letters in the depth of the queue where they died."""
        queue = lane.queue
        waits = lane.behind is not None
        queue.unburied.block(*((lane.count, lane.nbytes, lane.whole) if waits else (0, 0, 0)))
        self.keep_back(lane)
        if queue.id in self.state.queues:
            self.state.touch(queue)

    def reopen_lanes(self) -> None:
        """Reopen the lanes whose next letter may have room."""
        for lane in list(self.blocked):
            behind = lane.behind
            there = None if behind is None else self.state.topology.queue_by_id(behind.queue_id)
            if there is None or self.room.is_for(there, lane.size) or self.may_be_powerless(lane, there):
                lane.behind = None
                del self.blocked[lane]
                self.open[lane] = None
                self.count_blocked(lane)
                log.info("dead letters go on", queue=lane.queue.name, vhost=lane.queue.vhost, messages=lane.count,
                         seconds=(self.state.now - lane.since) / 1e6)  # fmt: skip

    def may_be_powerless(self, lane: Lane, behind: Queue) -> bool:
        """Whether letters may no longer need to wait for a queue, because the topology has changed since they began
        to.
        """
        return lane.version != self.state.version and self.grants.feeder(behind.queue_id) is not None

    # Letters

    def bury(self, lane: Lane, reason: int, grave: Grave) -> None:
        """Publish the letters of a grave, up to one without room; messages for the same queues leave as one batch."""
        queue = lane.queue
        exchange = queue.features.dead_letter_exchange if queue.delays is None else queue.delays
        if exchange is None or self.state.topology.exchange(queue.vhost, exchange) is None:
            return
        write = due_letter if reason == DUE else partial(dead_letter, death=self.death(queue, reason, exchange))
        builder, last, item = BatchBuilder(), Targets(), grave.item
        flags, lost = HAS_HEADERS, 0 if reason == DUE else HAS_EXPIRATION
        if item.redelivered and grave.contents.is_recovered(item.sequence):
            flags |= SENT_AGAIN  # an earlier incarnation may have sent it
        nbytes, start = 0, item.first + grave.first
        for row in range(start, start + grave.count):
            letter = write(item.batch.record(row))
            targets, powerless = self.route(queue.vhost, exchange, letter, cut=reason not in (REJECTED, DUE))
            size = letter.whole
            lane.behind = next(
                (each for each in targets if not self.room.is_for(each, size, each.queue_id not in powerless)), None
            )
            if lane.behind is not None:
                lane.size, grave.count = size, row - start
                break
            if targets != last:
                self.publish(last, builder, nbytes, grave)
                builder, last, nbytes = BatchBuilder(), targets, 0
            if targets:
                builder.add(*letter.record, item.batch.flags(row) & ~lost | flags)
                nbytes += size
                for target in targets:
                    self.room.sent(target, size)
        self.publish(last, builder, nbytes, grave)

    def death(self, queue: QueueState, reason: int, exchange: str) -> Death:
        """A death in a queue, now, that sends letters to an exchange."""
        key = queue.features.dead_letter_routing_key
        return Death(
            _nbytes(queue.name), REASONS[reason], self.state.wall_seconds(), _nbytes(exchange),
            None if key is None else _nbytes(key),
        )  # fmt: skip

    def route(self, vhost: str, exchange: str, letter: DeadLetter, cut: bool) -> tuple[Targets, frozenset[int]]:
        """The targets of a dead letter by all its keys, and those of them for which it does not wait
        (router/model/grants.py).

        With `cut`, targets where it would cycle are left out.
        """
        passed: dict[str, None] = {}
        keys = tuple(key.decode("utf-8", "surrogateescape") for key in letter.keys)
        properties = lru_cache(maxsize=1)(lambda: decode_properties(letter.record[1][PROPERTIES_AT:]))
        found = at_once(self.state.topology.routing(Work(), vhost, exchange, keys, properties, passed))
        powerless = at_once(self.grants.powerless(Work(), vhost, exchange, keys, properties, passed, found))
        targets = (queue for queue in found if not cut or not letter.would_cycle(_nbytes(queue.name)))
        return tuple(targets), powerless

    def publish(self, targets: Targets, builder: BatchBuilder, nbytes: int, grave: Grave) -> None:
        """Publish a batch of letters to its targets, here and on other shards."""
        if not targets or not len(builder):
            return
        batch = builder.finish()
        for shard, ids in by_shard(targets).items():
            arrived = partial(self.room.arrived, ids, len(batch), nbytes)
            if shard != self.state.index:
                grave.awaited += 1
                self.peers[shard].publish(ids, batch, partial(_safe, grave, arrived))
                continue
            for id in ids:
                self.intake.enqueue_internal(id, batch)
            arrived()


def _safe(grave: Grave, arrived: Callable[[], None]) -> None:
    """Another shard has letters safe."""
    arrived()
    grave.one_safe()


def _nbytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
