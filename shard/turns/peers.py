"""The traffic to other shards: dead letters for their queues, and operations about transactions.

Dead letters travel in turns, as publishes do, and are kept until they are safe on the other shard. If it dies, those
that were not safe, by its answer to the hello, are sent to its next incarnation. So a dead letter arrives at least
once, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock import bus
from penstock.batch.batch_cy import Batch
from penstock.bus import to_shard
from penstock.bus.link_stage import LINK, UP, LinkEvent, LinkStage
from penstock.bus.operations_cy import Operation
from penstock.states.transitions import Staged

# Bytes that may be in flight to a shard before dead-lettering waits for it.
HELD_MAX = 8 * 1024 * 1024


class Publish(NamedTuple):
    """Messages of a batch for some queues; `safe` is called once they are safe."""

    queues: tuple[int, ...]
    batch: Batch
    nbytes: int
    safe: Callable[[], None]
    resent: bool = False


class Peer(Staged[LinkStage, LinkEvent]):
    """One other shard. `held` is the number of bytes not yet safe there, `operations` are those waiting for the next
    turn; `met` counts its incarnations that were up.
    """

    transitions = LINK

    def __init__(self) -> None:
        self.stage = LinkStage.ABSENT
        self.number = 0
        self.met = 0
        self.held = 0
        self.next: list[Publish] = []
        self.operations: list[Operation] = []
        self.sent: deque[tuple[int, list[Publish]]] = deque()

    def publish(self, queues: tuple[int, ...], batch: Batch, safe: Callable[[], None]) -> None:
        """Queue messages for the next turn; `safe` is called once they are safe on the other shard."""
        nbytes = len(batch.contents) + len(batch.entries)
        self.held += nbytes
        self.next.append(Publish(queues, batch, nbytes, safe))

    def close_turn(self, version: int) -> list[Any] | None:
        """The multipart to send; None if there is nothing to send, or the shard is not up."""
        if self.stage is LinkStage.GREETING:
            self.happened(LinkEvent.HELLO_SENT)
            return bus.Turn().frames(bus.HELLO, version)
        if self.stage is not UP or not (self.next or self.operations):
            return None
        turn = bus.Turn()
        for publish in self.next:
            part = turn.place_batch(publish.batch, 0, len(publish.batch))
            turn.add(to_shard.Publish(publish.queues, part, 0, len(publish.batch), publish.resent))
        turn.operations.extend(self.operations)
        self.operations = []
        self.number += 1
        self.sent.append((self.number, self.next))
        self.next = []
        return turn.frames(self.number, version)

    def made_safe(self, number: int) -> None:
        """All turns up to `number` are safe on the other shard. If this answers the hello, the rest is sent again."""
        while self.sent and self.sent[0][0] <= number:
            for publish in self.sent.popleft()[1]:
                self.held -= publish.nbytes
                publish.safe()
        if self.stage is LinkStage.AWAITING:
            sent = [publish._replace(resent=True) for _, publishes in self.sent for publish in publishes]
            self.next = sent + self.next
            self.sent.clear()
            self.happened(LinkEvent.REPORTED)
            self.met += 1

    def add_operation(self, operation: Operation) -> None:
        """Add an operation that follows earlier publishes and need not reach a later incarnation."""
        self.operations.append(operation)

    def died(self) -> None:
        """The incarnation has died: drop operations that were only for it."""
        self.operations = []
        self.happened(LinkEvent.DIED)

    def end(self) -> None:
        """The shard is gone for good, and so are its queues: treat all publishes as safe."""
        self.operations = []
        self.happened(LinkEvent.REMOVED)
        publishes = [publish for _, turn in self.sent for publish in turn] + self.next
        self.sent.clear()
        self.next = []
        for publish in publishes:
            self.held -= publish.nbytes
            publish.safe()

    def started(self) -> None:
        """A new incarnation is to be greeted."""
        self.happened(LinkEvent.STARTED)


class Peers:
    """All other shards of the node, by index."""

    def __init__(self) -> None:
        self._peers: dict[int, Peer] = {}

    def __getitem__(self, index: int) -> Peer:
        peer = self._peers.get(index)
        if peer is None:
            peer = self._peers[index] = Peer()
        return peer

    @property
    def held(self) -> int:
        """Bytes kept until they are safe on other shards."""
        held = 0
        for peer in self._peers.values():
            held += peer.held
        return held

    @property
    def met(self) -> int:
        """A counter that grows with each incarnation of another shard that is up."""
        return sum(peer.met for peer in self._peers.values())

    def full(self) -> bool:
        """Whether dead-lettering has to wait for any shard."""
        return any(peer.held >= HELD_MAX for peer in self._peers.values())

    def close_turns(self, version: int) -> list[tuple[int, list[Any]]]:
        """The multiparts to send, each with the index of its shard."""
        if not self._peers:
            return []
        turns = ((index, peer.close_turn(version)) for index, peer in self._peers.items())
        return [(index, frames) for index, frames in turns if frames is not None]
