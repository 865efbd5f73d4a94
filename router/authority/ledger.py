"""The topology in the hands of those who change it: each change with what follows from it, recorded.

What follows: what goes takes its bindings with it, and an auto-delete exchange goes with the last binding from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from router.authority.extent import Taken
from router.authority.slots import Slots
from router.model.grants import grants
from router.model.records import Binding, Change, Exchange, Queue
from router.model.resource_limits import Holder
from router.model.topology import Topology


class Step(NamedTuple):
    """A change, and whether it is about something that survives a restart of the node."""

    change: Change
    durable: bool


class Ledger:
    """The topology, what is free for new queues, and the steps taken since they were last asked for.

    `taken` is what queues, exchanges and bindings take, `recorded` how many steps there have been.
    """

    def __init__(self, topology: Topology, slots: Slots, last_queue_id: int) -> None:
        self.topology = topology
        self.last_queue_id = last_queue_id
        self._slots = slots
        self._steps: list[Step] = []
        self.recorded = 0
        self.taken = Taken(topology)

    def measure(self) -> None:
        """The topology has changed by itself: see anew what it takes."""
        self.taken = Taken(self.topology)

    def take_steps(self) -> list[Step]:
        steps, self._steps = self._steps, []
        return steps

    def record(self, change: Change, durable: bool) -> None:
        self.recorded += 1
        self.taken.follow(self.topology, change)
        self.topology.apply(change)
        self._steps.append(Step(change, durable))

    def take_slot(self, shard: int) -> int | None:
        """A slot for `add_queue`; None if the node has as many queues as it can have."""
        return self._slots.take(shard)

    def next_queue_id(self) -> int:
        """Queue ids count from 1 and are never used again."""
        self.last_queue_id += 1
        return self.last_queue_id

    def add_exchange(self, exchange: Exchange) -> None:
        """A new one, or the same one governed by another policy."""
        self.record(exchange.change(), exchange.durable)

    def add_queue(self, queue: Queue) -> None:
        """A new one, or the same one with other limits and features."""
        self.record(queue.change(), queue.durable)

    def bind(self, binding: Binding) -> None:
        """Add a binding if it is not there. One by which its maker grants nothing (router.model.grants) becomes that of
        who may grant it.
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
        if (move := self.topology.moves.get(queue.queue_id)) is not None:
            self.record(move.change_gone(), durable=False)
        sources = self._remove_bindings(self.topology.bindings_to(queue.vhost, "queue", queue.name))
        self.record(["queue_gone", queue.vhost, queue.name, queue.queue_id], queue.durable)
        self._slots.free(queue.slot, queue.shard)
        self._delete_unused(queue.vhost, sources)

    def place_queue(self, vhost: str, name: str, shard: int | None) -> None:
        """Where queues of that name are made: a shard, or None for where the hash says."""
        self.record(["placement", vhost, name, shard], durable=True)
        self.record(["placement_version", self.topology.placement_version + 1], durable=True)

    def forget_limits(self, holder: Holder) -> None:
        """A vhost or a user goes, with its limits."""
        if self.topology.limits.of(holder):
            self.record(["limits", *holder, {}], durable=True)

    def rehome_queue(self, queue: Queue, shard: int, slot: int) -> None:
        """An existing one has another home from now on."""
        self._slots.free(queue.slot, queue.shard)
        self.add_queue(replace(queue, shard=shard, slot=slot))

    def remove_exchange(self, exchange: Exchange) -> None:
        self._delete_unused(exchange.vhost, self._remove_exchange(exchange))

    def _remove_exchange(self, exchange: Exchange) -> list[str]:
        """The exchanges that had bindings to it."""
        self._remove_bindings(self.topology.bindings_from(exchange.vhost, exchange.name))
        sources = self._remove_bindings(self.topology.bindings_to(exchange.vhost, "exchange", exchange.name))
        self.record(["exchange_gone", exchange.vhost, exchange.name], exchange.durable)
        return sources

    def _delete_unused(self, vhost: str, sources: Iterable[str]) -> None:
        """Exchanges that lost bindings go if they are auto-delete and these were the last; others may lose by that."""
        waiting = list(sources)
        while waiting:
            name = waiting.pop()
            exchange = self.topology.exchange(vhost, name)
            if exchange is not None and exchange.auto_delete and not self.topology.bindings_from(vhost, name):
                waiting += self._remove_exchange(exchange)

    def _remove_bindings(self, bindings: Iterable[Binding]) -> list[str]:
        """The exchanges they came from, each once."""
        sources: dict[str, None] = {}
        for binding in list(bindings):
            self.record(binding.change_gone(), self._is_durable(binding))
            sources[binding.source] = None
        return list(sources)

    def _is_durable(self, binding: Binding) -> bool:
        """A binding lives as long as both its ends do."""
        source = self.topology.exchange(binding.vhost, binding.source)
        destination: Exchange | Queue | None
        if binding.kind == "queue":
            destination = self.topology.queue(binding.vhost, binding.destination)
        else:
            destination = self.topology.exchange(binding.vhost, binding.destination)
        assert source is not None and destination is not None
        return source.durable and destination.durable
