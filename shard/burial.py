"""Dead-lettering: what left the queues of a shard unwanted is published again, to the exchange its queue names.

It is done message by message, so many a turn; what waits for a later turn counts in the memory of the shard. Queues
of this shard get their dead letters at once, those of others by way of their shard (shard/peers.py). The store forgets
the dead once their letters are safe: together with what these are for queues of this shard. A dead letter is never held
back: where it finds no exchange, no queue, or a full one that refuses, it is gone.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.amqp.tables_cy import decode_table
from penstock.batch_cy import HAS_EXPIRATION, HAS_HEADERS, SENT_AGAIN, BatchBuilder
from penstock.bus import MESSAGE_WEIGHT
from router.records import Queue
from shard.dead_letters import REASONS, DeadLetter, Death, dead_letter
from shard.peers import Peers, by_shard
from shard.queue_cy import REJECTED
from shard.queue_cy import Queue as Contents
from shard.queues import QueueState
from shard.segment_cy import Range

if TYPE_CHECKING:
    from shard.core import ShardCore

# Messages in one turn: some milliseconds.
SLICE = 256

Targets = tuple[Queue, ...]


class Grave:
    """Some dead of a range, whose letters are not safe yet with `awaited` other shards, or not all sent."""

    __slots__ = ("awaited", "contents", "count", "first", "item")

    def __init__(self, contents: Contents, item: Range, first: int, count: int) -> None:
        self.contents = contents
        self.item = item
        self.first = first
        self.count = count
        self.awaited = 1

    def one_safe(self) -> None:
        """One shard more has its letters safe, or all are sent."""
        self.awaited -= 1
        if not self.awaited:
            self.contents.buried(self.item, self.first, self.count)


class Burial:
    """The dead letters of one shard: waiting, then routed. `weight` is what those waiting count in memory."""

    def __init__(self, core: ShardCore, peers: Peers) -> None:
        self.core = core
        self.peers = peers
        self.waiting: deque[tuple[QueueState, int, Range]] = deque()
        self.done = 0
        self.weight = 0
        self.budget = SLICE

    def add(self, queue: QueueState, dead: list[tuple[int, Range]]) -> None:
        """Take what died in a queue."""
        for reason, item in dead:
            self.waiting.append((queue, reason, item))
            self.weight += _weight(item)

    def has_work(self) -> bool:
        """Whether there is anything to do that need not wait for another shard."""
        return bool(self.waiting) and not self.peers.full()

    def work(self) -> None:
        """Publish what waits, as far as the budget of this turn goes; who starts a turn renews that."""
        while self.waiting and self.budget > 0 and not self.peers.full():
            queue, reason, item = self.waiting[0]
            count = min(item.count - self.done, self.budget)
            grave = Grave(queue.contents, item, self.done, count)
            self.bury(queue, reason, grave)
            grave.one_safe()
            self.done += count
            self.budget -= count
            if self.done == item.count:
                self.waiting.popleft()
                self.weight -= _weight(item)
                self.done = 0

    def bury(self, queue: QueueState, reason: int, grave: Grave) -> None:
        """Publish what is in a grave; messages for the same queues leave as one batch."""
        exchange, key = queue.features.dead_letter_exchange, queue.features.dead_letter_routing_key
        if exchange is None or self.core.topology.exchange(queue.vhost, exchange) is None:
            return
        death = Death(
            _octets(queue.name), REASONS[reason], self.core.now // 1_000_000, _octets(exchange),
            None if key is None else _octets(key),
        )  # fmt: skip
        builder, last, item = BatchBuilder(), Targets(), grave.item
        flags = HAS_HEADERS
        if item.redelivered and grave.contents.is_recovered(item.sequence):
            flags |= SENT_AGAIN  # in an earlier life, perhaps
        for row in range(item.first + grave.first, item.first + grave.first + grave.count):
            letter = dead_letter(item.batch.record(row), death)
            targets = self.route(queue.vhost, exchange, letter, cut=reason != REJECTED)
            if targets != last:
                self.publish(last, builder, grave)
                builder, last = BatchBuilder(), targets
            if targets:
                builder.add(*letter.record, item.batch.flags(row) & ~HAS_EXPIRATION | flags)
        self.publish(last, builder, grave)

    def route(self, vhost: str, exchange: str, letter: DeadLetter, cut: bool) -> Targets:
        """Where a dead letter goes by all its keys; `cut`: not where it would go round in circles."""
        found: dict[int, Queue] = {}
        for key in letter.keys:
            name = key.decode("utf-8", "surrogateescape")
            for queue in self.core.topology.route(vhost, exchange, name, lambda: _decoded(letter.headers)):
                found[queue.queue_id] = queue
        return tuple(queue for queue in found.values() if not cut or not letter.would_cycle(_octets(queue.name)))

    def publish(self, targets: Targets, builder: BatchBuilder, grave: Grave) -> None:
        if not targets or not len(builder):
            return
        batch = builder.finish()
        for shard, ids in by_shard(targets).items():
            if shard != self.core.index:
                grave.awaited += 1
                self.peers[shard].publish(ids, batch, grave.one_safe)
                continue
            for id in ids:
                self.core.enqueue(id, batch, 0, len(batch))


def _weight(item: Range) -> int:
    return item.body_bytes + MESSAGE_WEIGHT * item.count


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _decoded(table: bytes) -> dict[str, object]:
    return decode_table(table, 0, len(table))[0]
