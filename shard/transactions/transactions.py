"""A shard's part of a transaction: all its publishes and settlements, or none (AMQP 0-9-1, 1.9).

If one shard takes part it may find a queue full and refuse. If several do (shard/transactions/two_phase.py), the queues
that may refuse are asked for room first; the room they reserve counts as used until the transaction is over, or the
room is given back. So no shard finds its part too large after others have accepted theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock import bus
from penstock.bus import to_acceptor, to_shard
from shard.queue.admission import admits
from shard.queue.queue_state import QueueState
from shard.requests.consuming import Consuming
from shard.serving.intake import Intake
from shard.serving.serving import Serving
from shard.transactions.prepared import Part, published
from shard.transactions.two_phase import TwoPhase
from shard.turns.checking import Checking, checks_first
from shard.turns.link import Link
from shard.turns.reserved import release
from shard.turns.state import ShardState

Need = tuple[QueueState, int, int]
"""A queue that may refuse, and the messages and bytes it needs room for."""


class Transactions:
    """Applies parts of transactions."""

    def __init__(
        self, state: ShardState, serving: Serving, intake: Intake, consuming: Consuming, two_phase: TwoPhase
    ) -> None:
        self.state = state
        self.serving = serving
        self.intake = intake
        self.consuming = consuming
        self.two_phase = two_phase

    def take_in(
        self, link: Link, parts: Sequence[Any], turn: int, index: int, commit: to_shard.Commit,
        publishes: Sequence[to_shard.Publish],
    ) -> None:  # fmt: skip
        """Apply a transaction unless a queue refuses it; `index` is that of its Commit in the turn."""
        if (full := self.first_full(self.needs(parts, publishes, commit.powerless))) is not None:
            link.verdicts.append(to_acceptor.Refused(turn, index, full.id))
            return
        if commit.settlements is not None:
            self.consuming.settle(link, parts[commit.settlements])
        for at, publish in enumerate(publishes, index + 1):
            self.intake.publish(link, parts, turn, at, publish, firm=True, powerless=commit.powerless)

    def prepare(
        self, link: Link, parts: Sequence[Any], prepare: to_shard.Prepare, publishes: Sequence[to_shard.Publish]
    ) -> None:
        """Prepare a part of a transaction and keep it until the decision."""
        part = Part(prepare.decider, published(parts, publishes, prepare.powerless))
        for queue in (self.state.queues[id] for id in part.queues() if id in self.state.queues):
            part.enter(queue)
            self.state.touch(queue)
        if prepare.settlements is not None:
            for queue, sequence, count, kind in self.consuming.hand_over(link, parts[prepare.settlements]):
                part.add_settlement(queue, sequence, count, kind)
        part.reserved = link.reserved.pop(prepare.group, ())
        self.two_phase.prepare(link, prepare.number, part)

    @checks_first
    def reserve(self, link: Link, reserve: to_shard.Reserve) -> Checking:
        """Reserve room for the transaction of a channel, and release room reserved for it before."""
        queues, group = self.state.queues, reserve.group
        kept = [(queues[id], count, nbytes) for id, count, nbytes in reserve.needs if id in queues]
        yield
        release(link, group)
        full = self.first_full(kept)
        if full is None and kept:
            for queue, count, nbytes in kept:
                queue.pending.reserve(count, nbytes)
            link.reserved[group] = kept
        link.reply(reserve.request, None if full is None else full.id)

    def needs(
        self, parts: Sequence[Any], publishes: Iterable[to_shard.Publish], powerless: Sequence[int] = ()
    ) -> list[Need]:
        """The room that publishes need in queues that may refuse."""
        found: dict[QueueState, list[int]] = {}
        queues = self.state.queues
        for publish in publishes:
            nbytes = bus.batch_at(parts, publish.part).body_bytes(publish.first, publish.messages)
            for queue in (queues[id] for id in publish.queues if isinstance(id, int) and id in queues):
                if queue.rejects and queue.id not in powerless:
                    need = found.setdefault(queue, [0, 0])
                    need[0] += publish.messages
                    need[1] += nbytes
        return [(queue, count, nbytes) for queue, (count, nbytes) in found.items()]

    def first_full(self, asked: Iterable[Need]) -> QueueState | None:
        """The first queue without room, after earlier operations of the turn have taken effect; None if all have
        room.
        """
        for queue, count, nbytes in asked:
            if queue.rejects:
                self.serving.serve_now(queue)
                if not admits(queue, count, nbytes, self.intake.oldest_unacked):
                    return queue
        return None
