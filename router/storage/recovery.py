"""Recovery of the stored topology: every queue gets a shard, slot, limits and features of this run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from penstock.limits.watermarks import FlowDefaults
from penstock.node.logs import get_logger
from router.authority.governing import governed_queue
from router.authority.ledger import Ledger
from router.authority.slots import Slots
from router.model.placement import place
from router.model.record_kind import Change
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

    A queue stays on its shard if that exists, and keeps the slot it had in this epoch. Slots 0 to `places` - 1 are the
    shards' own. `shards` are those of the settings, `open_slots` the slots that shards have open, including those of
    deleted queues whose end they have not received. Queues pass `through` an iterator that shows the progress.
    """
    found = [Queue(*change[1:]) for change in stored.changes if change[0] == "queue"]
    if len(found) > queues:
        raise TooManyQueues(f"{len(found)} queues are stored, max_queues is {queues}")
    late = ("queue", "binding")
    topology = Topology(stored.version, [change for change in stored.changes if change[0] not in late])
    slots = Slots(places, places + queues, {queue.slot for queue in found if queue.slot >= 0}, open_slots)
    ledger = Ledger(topology, slots, stored.last_queue_id)
    for change in _of_kind(stored.changes, *late):
        topology.apply(change)
    ledger.measure()
    known = topology.shards or {index: Shard(index, SERVING) for index in shards}
    for queue in through(found):  # last, as a queue may inherit from the exchanges that route to it
        settled = _settle(queue, ledger, known, defaults)
        if settled != queue:
            ledger.add_queue(settled)
    return ledger


def _settle(queue: Queue, ledger: Ledger, shards: Mapping[int, Shard], defaults: FlowDefaults) -> Queue:
    """Return the queue with a shard and slot, and with limits by the present settings, which may have changed."""
    shard = queue.shard
    if shard not in shards:
        serving = [index for index, found in shards.items() if found.state == SERVING]
        shard = place(queue.vhost, queue.name, serving, ledger.topology.placements)
        log.warning("a queue's shard does not exist", queue=queue.name, vhost=queue.vhost, old=queue.shard, new=shard)
    slot = ledger.take_slot(shard) if queue.slot < 0 else queue.slot
    assert slot is not None
    return governed_queue(replace(queue, slot=slot, shard=shard), ledger.topology, defaults)


def _of_kind(changes: list[Change], *kinds: str) -> list[Change]:
    return [change for change in changes if change[0] in kinds]
