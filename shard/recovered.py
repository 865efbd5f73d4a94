"""The contents of a store when the shard started, given to the queues as the topology names them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from penstock import bus
from penstock.batch.batch_cy import PERSISTENT
from penstock.node.logs import get_logger
from shard.contents.errors import StoreError
from shard.contents.segment_cy import Segment
from shard.queue.queue_state import QueueState
from shard.serving.leases import Leases
from shard.store.environment import translated
from shard.store.journal import Journal
from shard.store.store import Store
from shard.store.stored import Held
from shard.transactions.prepared import Part

log = get_logger()


class Recovered:
    """The contents of an earlier incarnation that no queue has received yet. After a restart of the node only
    persistent messages come back.

    `read_on` is called at each segment with the number of messages found so far. `parts` are those of unfinished
    transactions, `decisions` the shards that may not have done theirs, by id.
    """

    def __init__(self, store: Store, journal: Journal, read_on: Callable[[int], None] = lambda messages: None) -> None:
        self._journal = journal
        self._restarted = store.restarted
        self._segments: dict[int, list[Segment]] = defaultdict(list)
        self._leases: dict[int, dict[int, int]] = defaultdict(dict)
        self._counts: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._held: dict[int, list[tuple[str, Held]]] = defaultdict(list)
        self.parts: dict[bytes, Part] = {}
        self.decisions: dict[bytes, list[int]] = {}
        with translated(store.path, "transactions"):
            for transaction, record in store.transactions("prepared"):
                self.parts[transaction] = Part.of_record(record, store.restarted)
            for transaction, record in store.transactions("decisions"):
                self.decisions[transaction] = bus.unpack(record)
        journal.nbytes += sum(part.nbytes for part in self.parts.values())
        if self.parts:
            log.info("transactions are undecided: other shards are asked", transactions=len(self.parts))
        messages = 0
        for queue_id, segment in store.segments():
            self._segments[queue_id].append(segment)
            journal.count_recovered(segment)
            messages += segment.kept
            read_on(messages)
        for segments in self._segments.values():
            segments.sort(key=lambda segment: segment.sequence)
        for queue_id, priority, number in store.numbers("leases"):
            self._leases[queue_id][priority] = number
        for queue_id, sequence, number in store.numbers("counts"):
            self._counts[queue_id].append((sequence, number))
        for queue_id, id, held in store.held():
            self._held[queue_id].append((id, held))

    def give(self, queue: QueueState, leases: Leases) -> None:
        """Give a queue its contents, transactions and leases. A lease's record may be older than the rest."""
        segments = self._segments.pop(queue.id, [])
        if self._restarted:
            segments = [segment for segment in segments if self._keep_persistent(queue.id, segment)]
        queue.recover(segments, self._leases.pop(queue.id, {}), self._counts.pop(queue.id, []))
        for part in self.parts.values():
            part.claim(queue)
        for id, held in self._held.pop(queue.id, []):
            leases.recover(queue, id, held)

    def _keep_persistent(self, queue_id: int, segment: Segment) -> bool:
        """Have the store forget messages that are not persistent; return whether any message remains."""
        if not segment.mixed:
            return True
        try:
            batch = self._journal.load(queue_id, segment)
        except StoreError as error:
            log.error("messages cannot be read, all are kept", queue_id=queue_id, problem=str(error))
            return True
        for offset, count in segment.undone():
            for row in range(offset, offset + count):
                if not batch.flags(row) & PERSISTENT and segment.finish(row, 1):
                    self._journal.remove(queue_id, segment)
                    return False
        self._journal.mark(queue_id, segment)
        return True

    def forget_others(self) -> None:
        """All existing queues have received their contents: have the store forget those of deleted queues."""
        for queue_id, segments in self._segments.items():
            for segment in segments:
                self._journal.remove(queue_id, segment)
        for queue_id, leases in self._leases.items():
            for priority in leases:
                self._journal.lease(queue_id, priority, None)
        for queue_id, counts in self._counts.items():
            for sequence, _ in counts:
                self._journal.count(queue_id, sequence, 0)
        for queue_id, leases_held in self._held.items():
            for id, _ in leases_held:
                self._journal.put_lease(queue_id, id, None)
        self._segments.clear()
        self._leases.clear()
        self._counts.clear()
        self._held.clear()
