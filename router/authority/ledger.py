"""The ledger through which the topology is changed: it records each change and the changes that follow from it.

A queue or exchange is deleted with its bindings, a delayed message exchange with its delay queue, and an auto-delete
exchange with the last binding from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from router.authority.extent import Usage
from router.authority.slots import Slots
from router.model.delaying import delay_queue_of
from router.model.grants import grants
from router.model.record_kind import Change
from router.model.records import Binding, Exchange, Placement, Queue
from router.model.resource_limits import Holder, HolderLimits
from router.model.topology import LAST_STOP, PLACEMENT_VERSION, Topology


class Step(NamedTuple):
    """A change, and whether it concerns something that survives a restart of the node."""

    change: Change
    durable: bool


class Ledger:
    """The topology, the free slots and ids for new queues, and the steps since the last `take_steps`.

    `usage` is the size of queues, exchanges and bindings, `recorded` the number of all steps so far;
    `queues_made` and `queues_removed` count queues since the start of the router.
    """

    def __init__(self, topology: Topology, slots: Slots, last_queue_id: int) -> None:
        self.topology = topology
        self.last_queue_id = last_queue_id
        self.queues_made = self.queues_removed = 0
        self._slots = slots
        self._steps: list[Step] = []
        self.recorded = 0
        self.usage = Usage(topology)

    def copy(self) -> Ledger:
        """Return a ledger over a copy of the topology, without steps."""
        topology = Topology(self.topology.version, list(self.topology.changes()))
        return Ledger(topology, self._slots.copy(), self.last_queue_id)

    def take_steps(self) -> list[Step]:
        """Return and forget the steps so far."""
        steps, self._steps = self._steps, []
        return steps

    def record(self, change: Change, durable: bool) -> None:
        """Apply a change to the topology and add it to the steps."""
        self.recorded += 1
        self.usage.register(self.topology, change)
        self.topology.apply(change)
        self._steps.append(Step(change, durable))

    def take_slot(self, shard: int) -> int | None:
        """Return a slot for `add_queue`; None if the node has as many queues as it can have."""
        return self._slots.allocate(shard)

    def next_queue_id(self) -> int:
        """Return a new queue id. Ids count from 1 and are never reused."""
        self.last_queue_id += 1
        self.queues_made += 1
        return self.last_queue_id

    def next_stop(self) -> int:
        """Return the number of a new stop. Numbers count from 1 and are never reused: an operator who lifts a stop that
        is over lifts no later one.
        """
        number = max(self.topology.counters[LAST_STOP], *self.topology.stops, 0) + 1
        self.record([LAST_STOP, number], durable=True)
        return number

    def add_exchange(self, exchange: Exchange) -> None:
        """Add an exchange, or replace the record of one that another policy governs."""
        self.record(exchange.change(), exchange.durable)

    def add_queue(self, queue: Queue) -> None:
        """Add a queue, or replace the record of one with other limits and features, or another place."""
        self.record(queue.change(), queue.durable)

    def bind(self, binding: Binding) -> None:
        """Add a binding if it is not there. One that does not grant its queue power (router.model.grants) is replaced
        by an equal one whose maker can grant it.
        """
        existing = self.topology.binding(binding)
        if existing is not None:
            if grants(self.topology, existing) or not grants(self.topology, binding):
                return
            self.record(existing.change_gone(), self._is_durable(existing))
        self.record(binding.change(), self._is_durable(binding))

    def unbind(self, binding: Binding) -> None:
        """Remove a binding if it is there."""
        existing = self.topology.binding(binding)
        if existing is not None:
            self._remove_bindings([existing])
            self._delete_unused(binding.vhost, [binding.source])

    def remove_queue(self, queue: Queue) -> None:
        """Remove a queue with its move, its bindings, and auto-delete exchanges whose last bindings these were."""
        if (move := self.topology.moves.get(queue.queue_id)) is not None:
            self.record(move.change_gone(), durable=False)
        sources = self._remove_bindings(self.topology.bindings_to(queue.vhost, "queue", queue.name))
        self.record(queue.change_gone(), queue.durable)
        self.queues_removed += 1
        self._slots.free(queue.slot, queue.shard)
        self._delete_unused(queue.vhost, sources)

    def place_queue(self, vhost: str, name: str, shard: int | None) -> None:
        """Place queues of that name that are made from now on: on a shard, or (None) by the hash."""
        self.record(Placement(vhost, name, shard).change(), durable=True)
        self.record([PLACEMENT_VERSION, self.topology.placement_version + 1], durable=True)

    def forget_limits(self, holder: Holder) -> None:
        """Forget the limits of a vhost or a user that is being deleted."""
        if self.topology.limits.of(holder):
            self.record(HolderLimits(*holder, {}).change(), durable=True)

    def rehome_queue(self, queue: Queue, shard: int, slot: int) -> None:
        """Give an existing queue another home: a shard, and a slot for it."""
        self._slots.free(queue.slot, queue.shard)
        self.add_queue(replace(queue, shard=shard, slot=slot))

    def remove_exchange(self, exchange: Exchange) -> None:
        """Remove an exchange with its bindings, and auto-delete exchanges whose last bindings these were."""
        self._delete_unused(exchange.vhost, self._remove_exchange(exchange))

    def _remove_exchange(self, exchange: Exchange) -> list[str]:
        """Remove an exchange with its bindings and its delay queue. Return the exchanges that had bindings to it."""
        waiting = self.topology.queue(exchange.vhost, delay_queue_of(exchange.name))
        if waiting is not None:
            self.remove_queue(waiting)
        self._remove_bindings(self.topology.bindings_from(exchange.vhost, exchange.name))
        sources = self._remove_bindings(self.topology.bindings_to(exchange.vhost, "exchange", exchange.name))
        self.record(exchange.change_gone(), exchange.durable)
        return sources

    def _delete_unused(self, vhost: str, sources: Iterable[str]) -> None:
        """Remove those of the exchanges that are auto-delete and have no bindings left, which may leave others so."""
        waiting = list(sources)
        while waiting:
            name = waiting.pop()
            exchange = self.topology.exchange(vhost, name)
            if exchange is not None and exchange.auto_delete and not self.topology.bindings_from(vhost, name):
                waiting += self._remove_exchange(exchange)

    def _remove_bindings(self, bindings: Iterable[Binding]) -> list[str]:
        """Remove bindings. Return the exchanges that they came from, each once."""
        sources: dict[str, None] = {}
        for binding in list(bindings):
            self.record(binding.change_gone(), self._is_durable(binding))
            sources[binding.source] = None
        return list(sources)

    def _is_durable(self, binding: Binding) -> bool:
        """Whether a binding survives a restart: both its ends have to."""
        source = self.topology.exchange(binding.vhost, binding.source)
        destination: Exchange | Queue | None
        if binding.kind == "queue":
            destination = self.topology.queue(binding.vhost, binding.destination)
        else:
            destination = self.topology.exchange(binding.vhost, binding.destination)
        assert source is not None and destination is not None
        return source.durable and destination.durable
