"""The shards of a node, and their states: on which of them new queues may be placed.

      add ──▶ starting ──(it serves)──▶ serving ◀──undrain── draining ──(remove, it is empty)──▶ leaving ──▶ gone
                                           └───────drain───────▶

Until a command changes them, the shards are those of the settings, and nothing is stored. From the first command on the
stored ones count, and the settings do not: each state is a change of the topology, stored before any process acts on
it. Another incarnation of the router, and a node that is restarted, continue from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.control.control import Refusal
from penstock.memory.gauges import READY, UNSTARTED
from penstock.node.logs import get_logger
from router.authority.ledger import Ledger
from router.model.records import DRAINING, LEAVING, SERVING, STARTING, Shard

log = get_logger()

POLLS_BEFORE_END = 2
"""The number of polls that find a shard leaving before it is ended: replies routed through it arrive meanwhile."""

AskForShard = Callable[[int, bool], None]
"""Asks the supervisor to start a shard (True), or to end it for good (False)."""


class Shards:
    """The shards in the topology of a ledger; `first` are those of the settings.

    `places` is the most shards of this run; `state_of` returns the state of a shard's process, `bytes_of` the bytes in
    its memory and in its store; `ask` has the supervisor start or end a shard.
    """

    def __init__(self, ledger: Ledger, first: Iterable[int]) -> None:
        self.ledger = ledger
        self.topology = ledger.topology
        self.stored = bool(self.topology.shards)
        if not self.stored:
            for index in first:
                self.topology.apply(Shard(index, SERVING).change())
        self.places = len(self.topology.shards)
        self.state_of: Callable[[int], int] = lambda shard: READY
        self.bytes_of: Callable[[int], tuple[int, int]] = lambda shard: (0, 0)
        self.ask: AskForShard = lambda shard, there: None
        self.leaving_polls: dict[int, int] = {}

    @property
    def serving(self) -> list[int]:
        """The shards that queues are placed on."""
        return [shard.number for shard in self.topology.shards.values() if shard.state == SERVING]

    def queues_of(self, shard: int) -> int:
        """Return the number of queues that live on a shard or are moving to it."""
        homes = sum(queue.shard == shard for queue in self.topology.queues())
        return homes + sum(move.target == shard != move.home for move in self.topology.moves.values())

    def moves_of(self, shard: int) -> int:
        """Return the number of moves from or to a shard that are not over."""
        return sum(shard in (move.source, move.target) for move in self.topology.moves.values())

    # Commands

    def add(self) -> int:
        """Add a shard and return its number. Refusal if all places are taken."""
        index = next((index for index in range(self.places) if index not in self.topology.shards), None)
        if index is None:
            raise Refusal(
                "failed",
                f"this run of the node has {self.places} places for shards, all are taken; "
                "restart the node for more (setting spare_shards)",
            )
        self._set(index, STARTING)
        return index

    def drain(self, shard: int) -> None:
        """Place no further queue on a shard. Refusal if it does not serve, or no other shard does."""
        state = self._state(shard)
        if state == DRAINING:
            return
        if state != SERVING:
            raise Refusal("failed", f"shard {shard} is {state}")
        if self.serving == [shard]:
            raise Refusal("failed", f"shard {shard} is the only one that takes queues")
        self._set(shard, DRAINING)

    def undrain(self, shard: int) -> None:
        """Place queues on a draining shard again. Refusal if it is starting or leaving."""
        state = self._state(shard)
        if state not in (SERVING, DRAINING):
            raise Refusal("failed", f"shard {shard} is {state}")
        if state == DRAINING:
            self._set(shard, SERVING)

    def remove(self, shard: int) -> None:
        """End a shard for good. Refusal while it takes queues, or has queues, moves or contents."""
        state = self._state(shard)
        if state == LEAVING:
            return
        if state == SERVING:
            raise Refusal("failed", f"shard {shard} takes queues: `penstock shard drain {shard}` first")
        if queues := self.queues_of(shard):
            raise Refusal("failed", f"shard {shard} has {queues} queue{'s' * (queues > 1)}")
        if state == DRAINING and self.state_of(shard) != READY:
            raise Refusal("failed", f"shard {shard} does not serve at present: the contents of its store are not known")
        if self.moves_of(shard):
            raise Refusal("failed", f"a move from or to shard {shard} is not over")
        memory, stored = self.bytes_of(shard)
        if memory or stored:
            raise Refusal("failed", f"shard {shard} still has {memory} bytes in memory, {stored} in its store")
        self._set(shard, LEAVING)

    def _state(self, shard: int) -> str:
        found = self.topology.shards.get(shard)
        if found is None:
            raise Refusal("not_found", f"there is no shard {shard}")
        return found.state

    def _set(self, shard: int, state: str) -> None:
        if not self.stored:
            self.stored = True
            for present in list(self.topology.shards.values()):
                self.ledger.record(present.change(), durable=True)
        self.ledger.record(Shard(shard, state).change(), durable=True)
        log.info("shard", shard=shard, state=state)

    # Progress

    def advance(self) -> None:
        """Advance starting and leaving shards. To be called periodically, once all that was recorded is stored."""
        for shard in list(self.topology.shards.values()):
            if shard.state == STARTING:
                if self.state_of(shard.number) == READY:
                    self._set(shard.number, SERVING)
                elif self.state_of(shard.number) == UNSTARTED:
                    self.ask(shard.number, True)
            elif shard.state == LEAVING:
                self._leave(shard)

    def _leave(self, shard: Shard) -> None:
        number = shard.number
        if self.state_of(number) == UNSTARTED:
            self.leaving_polls.pop(number, None)
            for placement in list(self.topology.placements.values()):
                if placement.shard == number:
                    self.ledger.place_queue(placement.vhost, placement.queue, None)
            self.ledger.record(shard.change_gone(), durable=True)
            log.info("shard is gone", shard=number)
            return
        self.leaving_polls[number] = self.leaving_polls.get(number, 0) + 1
        if self.leaving_polls[number] > POLLS_BEFORE_END:
            self.ask(number, False)
