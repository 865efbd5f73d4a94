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
from router.model.records import DRAINING, LEAVING, SERVING, STARTING

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
                self.topology.apply(["shard", index, SERVING])
        self.places = len(self.topology.shards)
        self.state_of: Callable[[int], int] = lambda shard: READY
        self.bytes_of: Callable[[int], tuple[int, int]] = lambda shard: (0, 0)
        self.ask: AskForShard = lambda shard, there: None
        self.leaving_polls: dict[int, int] = {}

    @property
    def serving(self) -> list[int]:
        """The shards that queues are placed on."""
        return [index for index, state in self.topology.shards.items() if state == SERVING]

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
        state = self.topology.shards.get(shard)
        if state is None:
            raise Refusal("not_found", f"there is no shard {shard}")
        return state

    def _set(self, shard: int, state: str) -> None:
        if not self.stored:
            self.stored = True
            for index, present in list(self.topology.shards.items()):
                self.ledger.record(["shard", index, present], durable=True)
        self.ledger.record(["shard", shard, state], durable=True)
        log.info("shard", shard=shard, state=state)

    # Progress

    def advance(self) -> None:
        """Advance starting and leaving shards. To be called periodically, once all that was recorded is stored."""
        for index, state in list(self.topology.shards.items()):
            if state == STARTING:
                if self.state_of(index) == READY:
                    self._set(index, SERVING)
                elif self.state_of(index) == UNSTARTED:
                    self.ask(index, True)
            elif state == LEAVING:
                self._leave(index)

    def _leave(self, shard: int) -> None:
        if self.state_of(shard) == UNSTARTED:
            self.leaving_polls.pop(shard, None)
            for (vhost, name), placed in list(self.topology.placements.items()):
                if placed == shard:
                    self.ledger.place_queue(vhost, name, None)
            self.ledger.record(["shard_gone", shard], durable=True)
            log.info("shard is gone", shard=shard)
            return
        self.leaving_polls[shard] = self.leaving_polls.get(shard, 0) + 1
        if self.leaving_polls[shard] > POLLS_BEFORE_END:
            self.ask(shard, False)
