"""Recovery of the stored topology: every queue gets a shard, slot, limits and features that this run has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from penstock.limits.watermarks import FlowDefaults
from penstock.node.logs import get_logger
from router.authority.governing import governed_queue
from router.authority.ledger import Ledger
from router.authority.slots import Slots
from router.model.placement import place
from router.model.records import SERVING, Queue, Shard
from router.model.topology import Topology
from router.storage.store import Stored

log = get_logger()


class TooManyQueues(Exception):
    """More queues are stored than the node may have; the text is one line that says so."""


def recover(
    stored: Stored, shards: Iterable[int], places: int, queues: int, defaults: FlowDefaults,
    open_slots: Collection[int] = (), through: Callable[[list[Queue]], Iterable[Queue]] = iter,
) -> Ledger:  # fmt: skip
    """Return the ledger of the stored topology; its steps are the changes needed. TooManyQueues beyond `queues`.

    A queue stays on its shard if that exists, and keeps its slot if the node still has that. Slots 0 to `places` - 1
    are the shards' own. `shards` are those of the settings, `open_slots` the slots that shards have open, including
    those of deleted queues whose end they have not received. Queues pass `through` an iterator that shows the progress.
    """
    topology = Topology(stored.version, stored.changes)
    if len(topology.queues()) > queues:
        raise TooManyQueues(f"{len(topology.queues())} queues are stored, max_queues is {queues}")
    valid = range(places, places + queues)
    slots = Slots(valid, {queue.slot for queue in topology.queues() if queue.slot in valid}, open_slots)
    ledger = Ledger(topology, slots, stored.last_queue_id)
    known = topology.shards or {index: Shard(index, SERVING) for index in shards}
    for queue in through(list(topology.queues())):  # last, as a queue may inherit from the exchanges that route to it
        placed = _placed(queue, ledger, known, valid)
        settled = governed_queue(placed, topology, defaults)
        if settled != queue:
            ledger.add_queue(settled)
    return ledger


def _placed(queue: Queue, ledger: Ledger, shards: Mapping[int, Shard], valid: range) -> Queue:
    """Return the queue with one of these shards, and with one of the `valid` slots."""
    shard, slot = queue.shard, queue.slot
    if shard not in shards:
        serving = [index for index, found in shards.items() if found.state == SERVING]
        shard = place(queue.vhost, queue.name, serving, ledger.topology.placements)
        log.warning("a queue's shard does not exist", queue=queue.name, vhost=queue.vhost, old=queue.shard, new=shard)
    if slot not in valid:
        taken = ledger.take_slot(shard)
        assert taken is not None
        slot = taken
    return queue if (shard, slot) == (queue.shard, queue.slot) else replace(queue, slot=slot, shard=shard)
