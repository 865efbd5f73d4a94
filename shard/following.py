"""Follows the topology: which queues live on the shard, their limits, and the removal of those that are gone."""

from __future__ import annotations

from typing import Any

from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import QueueLimits
from router.model.records import Move, Queue
from shard.flow.events import Events
from shard.flow.flow import Flow
from shard.moving.moving import Moving
from shard.queue.deletion import DeletionEvent
from shard.queue.queue_state import QueueState
from shard.queue.saturation import Stop
from shard.queue.stalls import Stalls
from shard.recovered import Recovered
from shard.requests.consuming import Consuming
from shard.serving.deleting import send_cancelled
from shard.serving.paces import Paces
from shard.serving.paging import Paging
from shard.serving.waiters import Waiters
from shard.turns.state import ShardState


class Following:
    """Applies changes of the topology to one shard.

    `recovered` are the contents of the store, until the topology is known. `paces`, `waiters` and the others keep some
    state of each queue, which they forget with it.
    """

    def __init__(
        self, state: ShardState, flow: Flow, events: Events, stalls: Stalls, paging: Paging, consuming: Consuming,
        moving: Moving, waiters: Waiters, paces: Paces, recovered: Recovered | None,
    ) -> None:  # fmt: skip
        self.state = state
        self.flow = flow
        self.events = events
        self.stalls = stalls
        self.paging = paging
        self.consuming = consuming
        self.moving = moving
        self.waiters = waiters
        self.paces = paces
        self.recovered = recovered

    def load(self, version: int, changes: list[list[Any]]) -> None:
        """Start from a snapshot: queues that exist already keep their contents.

        Queues that no longer live here are removed first: their slots may belong to others.
        """
        state = self.state
        homes = {change[3]: Queue(*change[1:]).shard for change in changes if change[0] == "queue"}
        for queue in list(state.queues.values()):
            if queue.id not in homes:
                self.close_queue(queue.id)
            elif homes[queue.id] != state.index:
                self.release_queue(queue)
        state.topology.reset()
        moves = (Move(*change[1:]) for change in changes if change[0] == "move")
        self.flow.earlier |= {
            move.queue_id: Stop(*move.stop) for move in moves if move.stop and move.home == state.index == move.target
        }
        for change in changes:
            self.change(change)
        if state.version < 0:
            self.close_slots()
        self.moving.keep_only(state.topology.moves)
        if self.recovered is not None:
            self.recovered.forget_others()
            self.recovered = None
        self.flow.earlier.clear()
        self.advance(version)

    def close_slots(self) -> None:
        """Close the slots of queues that were deleted, or given another home, while no incarnation of the shard was
        there to do it.
        """
        slots = {queue.slot for queue in self.state.queues.values()}
        for slot, _ in self.state.gauges.queues_of(self.state.index):
            if slot not in slots:
                self.state.gauges.queue_close(slot)

    def apply(self, version: int, changes: list[list[Any]]) -> None:
        """Apply one published change of the topology."""
        for change in changes:
            self.change(change)
        self.advance(version)

    def advance(self, version: int) -> None:
        self.state.version = self.state.topology.version = version

    def change(self, change: list[Any]) -> None:
        """Apply one record of a change."""
        self.state.topology.apply(change)
        if change[0] == "queue":
            self.change_queue(Queue(*change[1:]))
        elif change[0] == "queue_gone":
            self.close_queue(change[3])
        elif change[0] == "move":
            self.moving.apply(self.state.topology.moves[change[1]])
        elif change[0] == "move_gone":
            self.moving.end_move(change[1])

    def change_queue(self, record: Queue) -> None:
        """A queue is new, has moved, or has other limits or features."""
        queue = self.state.queues.get(record.queue_id)
        if record.shard != self.state.index:
            if queue is not None:
                self.release_queue(queue)
        elif queue is not None:
            self.update_queue(queue, record)
        elif (queue := self.moving.arrived(record)) is not None:
            self.state.queues[record.queue_id] = queue
            self.flow.take_over(queue, self.state.now)
            self.moving.homings.freeze(queue.id)
            self.state.touch(queue)
            self.update_queue(queue, record)
        else:
            queue = self.state.queues[record.queue_id] = self.state.make_queue(record)
            if self.recovered is not None:
                self.recovered.give(queue, self.consuming.leases)
                queue.saturation.set_marks(queue.limits.marks, self.state.now)
            self.flow.begin(queue, self.state.now)
            self.state.touch(queue)

    def update_queue(self, queue: QueueState, record: Queue) -> None:
        """Give a queue the limits and features of its record."""
        limits, features = QueueLimits.from_wire(record.limits), QueueFeatures.from_wire(record.features)
        if (limits, features) != (queue.limits, queue.features):
            marks, reserve = queue.limits.marks, queue.features.reserve
            queue.apply_limits(limits, features, self.state.now)
            self.state.touch(queue)
            if (limits.marks, features.reserve) != (marks, reserve):
                self.state.gauges.queue_write_over(queue.slot, 0, 0)
            if limits.marks != marks:
                self.events.record("limits", queue)

    def release_queue(self, queue: QueueState) -> None:
        """Drop a queue that has moved to another shard with all its messages; acceptors know of the move."""
        for link in self.state.links.values():
            self.moving.drop_consumers(link, queue)
        self.forget_queue(queue)

    def close_queue(self, id: int) -> None:
        """Remove a deleted queue and cancel its consumers."""
        queue = self.state.queues.get(id)
        if queue is None:
            return
        for link in self.state.links.values():
            self.consuming.close_queue(link, queue)
        self.forget_queue(queue)
        if not queue.deletion.answers:
            send_cancelled(queue)

    def forget_queue(self, queue: QueueState) -> None:
        """Drop a queue and all state kept for it."""
        del self.state.queues[queue.id]
        self.waiters.forget_queue(queue.id)
        self.paces.forget_queue(queue.id)
        self.state.touched.pop(queue.id, None)
        self.stalls.forget(queue.id)
        self.flow.forget(queue.id)
        self.state.weigh(queue, 0)
        self.state.gauges.queue_close(queue.slot)
        self.consuming.leases.forget(queue)
        self.paging.forget(queue)
        queue.contents.close()
        queue.deletion.happened(DeletionEvent.REMOVE)
