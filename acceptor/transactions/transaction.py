"""Transactions: publishes and settlements that wait for tx.commit (AMQP 0-9-1, 1.9).

      collecting ──(tx.commit)──▶ waiting for room ──(all of it fits)──▶ in flight ──(all of it is done)──▶ done
          └──(tx.rollback, an error, the end of the channel)──▶ forgotten

All of it is done or nothing. It leaves when every gate on its way has room for all of it; if several shards take part,
queues that reject publishes must first reserve room. A transaction that is larger than a queue can ever have room for
leaves when the queue is open and nothing is in flight to it. A single shard takes its part in at once; several shards
prepare their parts first (acceptor/transactions/two_phase.py).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from acceptor.clients.asking import Answer, Asking, AtGates, Until, ask_shard
from acceptor.clients.parked import ParkedRun
from acceptor.gates.gate import Gate
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.rights import Undecided
from acceptor.links.sent import Commit
from acceptor.links.shard_link import ShardLink
from acceptor.links.unacked_cy import Settlements
from acceptor.publishing.publishing import unroutable
from acceptor.routing.route import Route
from acceptor.routing.routing import BUDGET
from acceptor.transactions.replacing import Lacking, excess, has_room_for
from acceptor.transactions.two_phase import TwoPhase
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.scan_cy import SettleRun
from penstock.batch.settlement_rows import SETTLE_REQUEUE
from penstock.bus import to_shard
from penstock.limits.watermarks import REJECTING, overflow_on_wire
from router.model.grants import NOBODY

if TYPE_CHECKING:
    from acceptor.budgets.accounts import Accounts
    from acceptor.clients.channel_state import ChannelState
    from acceptor.moving.moving import Moves
    from acceptor.publishing.publishing import Publishing

Piece = tuple[ParkedRun, Route]


class Transaction:
    """The publishes and settlements of a channel since its last commit or rollback."""

    def __init__(self, channel: ChannelState, accounts: Accounts) -> None:
        self.acceptor = channel.acceptor
        self.accounts = accounts
        self.connection = channel.connection
        self.runs: list[ParkedRun] = []
        self.nbytes = 0
        self.since: float | None = None
        # By shard; the last ones are those of queues that move.
        self.settlements = [Settlements() for _ in range(self.acceptor.nowhere + 1)]
        self.journal = bytearray()
        self.settled = 0

    def publish(self, run: ParkedRun) -> None:
        """Keep publishes until the commit, leaving nothing in `run`. AMQPError if there is no room for them."""
        self.begin()
        limit, connection = self.acceptor.settings.amqp.transaction_bytes, self.connection
        if connection.kept.uncommitted + run.nbytes > limit:
            raise amqp_error(406, f"transactions without commit hold more than {limit} bytes (amqp.transaction_bytes)")
        if self.accounts.is_used_up(connection.user, run.nbytes):
            raise amqp_error(
                406,
                f"transactions without commit of user '{connection.user}', and what else is kept for it, come to more "
                "than its share (memory.user_percent)",
            )
        self.charge(run.nbytes)
        kept = ParkedRun(run.address, run.mandatory, run.batch, run.first, run.count, 0, run.further)
        self.runs.append(kept)
        run.count = 0

    def begin(self) -> None:
        """Record the time of the transaction's first publish or settlement."""
        if self.since is None:
            self.since = self.acceptor.now

    def charge(self, nbytes: int) -> None:
        """Charge bytes (fewer if negative) to the transaction, its connection and user."""
        self.nbytes += nbytes
        self.connection.kept.uncommitted += nbytes
        self.accounts.charge(self.connection.user, nbytes)

    def settle(self, channel: ChannelState, run: SettleRun) -> int:
        """Keep settlements until the commit; return the first unknown tag, or -1."""
        self.begin()
        before = channel.unacked.consumed
        unknown: int = channel.unacked.settle_noted(run.rows, run.count, self.settlements, self.journal)
        settled = before - channel.unacked.consumed
        self.settled += settled
        channel.shared_prefetch.uncommitted += settled
        return unknown

    def rollback(self, channel: ChannelState) -> None:
        """Drop the publishes; the settled messages are unacked again."""
        channel.unacked.restore(self.journal)
        channel.shared_prefetch.committed(self.settled)
        self.forget()

    def forget(self) -> None:
        """Drop the publishes and their charge."""
        self.charge(-self.nbytes)
        self.runs.clear()

    def pieces(self, channel: ChannelState, publishing: Publishing) -> Generator[AtGates | Until, Answer, list[Piece]]:
        """Return the publishes in pieces that go the same way by the current topology. If that changes meanwhile the
        search begins anew, each time with a larger budget for a turn.
        """
        routes, routing = publishing.routes, publishing.gates.routing
        found: list[Piece] = []
        for attempt in itertools.count():
            epoch, found = routes.epoch, []
            for run in self.runs:
                rest = ParkedRun(run.address, run.mandatory, run.batch, run.first, run.count, 0, run.further)
                while rest.count and epoch == routes.epoch:
                    try:
                        piece = publishing.next_piece(channel, rest)
                    except Undecided as undecided:
                        yield Until(undecided.start)
                        continue
                    if piece is not None:
                        found.append(piece)
                    else:
                        yield AtGates((routing,))
                        channel.budget().left += BUDGET * attempt
            if epoch == routes.epoch:
                break
        return found

    def freed(self, channel: ChannelState) -> dict[int, list[int]]:
        """Return how many messages its settlements remove from queues, and their bytes counted whole, by queue id."""
        queues = {consumer.id: consumer.queue.queue_id for consumer in channel.consumers.values()}
        queues |= {getter: queue for queue, getter in channel.getters.items()}
        freed: dict[int, list[int]] = {}
        for _, consumer, _, count, when_and_kind, whole in struct.iter_unpack("<QQQIIQ", self.journal):
            queue = queues.get(consumer)
            if when_and_kind & 3 != SETTLE_REQUEUE and queue is not None:
                of_queue = freed.setdefault(queue, [0, 0])
                of_queue[0] += count
                of_queue[1] += whole
        return freed

    def lacking(self, channel: ChannelState, pieces: Sequence[Piece], moves: Moves) -> Lacking:
        """Return the gates without room for all of it, allowing for the room that its own settlements make."""
        needs: dict[Gate, list[int]] = {}
        for run, route in pieces:
            batch, first, count = run.batch, run.first, run.count
            bodies, whole = batch.body_bytes(first, count), batch.whole(first, count)
            for barrier in route.barriers_for(channel.connection.id):
                needs[barrier] = [0, 0]
            gates: list[tuple[Gate, int]] = [(rate, bodies) for rate in route.rates]
            left = route.fan.leavers() if route.fan is not None else ()
            for target in route.targets:
                gates.append((target.link, batch.nbytes(first, count)))
                gates += [(queue_gate, whole) for queue_gate in target.queue_gates if queue_gate not in left]
            for gate, nbytes in gates:
                need = needs.setdefault(gate, [0, 0])
                need[0] += count
                need[1] += nbytes
        if self.settlements[-1]:
            needs |= {gate: [0, 0] for gate in moves.shut_gates()}
        freed = self.freed(channel) if self.journal else {}
        lacking: dict[Gate, int | None] = {}
        for gate, (count, nbytes) in needs.items():
            more = None
            if isinstance(gate, QueueGate) and gate.id in freed:
                more = excess(gate, freed[gate.id], count, nbytes)
                if more is not None and has_room_for(gate, more):
                    continue
            if not gate.admits(count, nbytes):
                lacking[gate] = more
        return lacking


def powerless_of(pieces: Sequence[Piece]) -> frozenset[int]:
    """Return the queues that may refuse none of it: those that are powerless over every piece that goes to them."""
    found = NOBODY.union(*(route.powerless for _, route in pieces))
    for route in (route for _, route in pieces) if found else ():
        found -= {id for target in route.targets for id in target.queues if id not in route.powerless}
    return found


class Committing:
    """A transaction in flight, until it is `over`. `full` is the queue that had no room for it.

    A single shard may refuse its part. If several take part none of them does: their queues that may refuse are asked
    to reserve room before any of it leaves, and it is `firm`.
    """

    def __init__(self, channel: ChannelState, transaction: Transaction) -> None:
        self.channel = channel
        self.over = True
        self.firm = False
        self.number = 0
        self.full: int | None = None
        self.reserved: list[int] = []
        self.powerless: frozenset[int] = NOBODY
        self.commits: dict[int, Commit] = {}
        self.settlements = transaction.settlements
        self.settled = transaction.settled
        self.done: Callable[[Any], None] = lambda answer: None

    def reserve(self, pieces: Sequence[Piece]) -> Asking:
        """Reserve room in the queues that may refuse. AMQPError if one has none."""
        shards = {target.link.index for _, route in pieces for target in route.targets}
        shards.update(index for index, settlements in enumerate(self.settlements) if settlements)
        self.firm = len(shards) > 1
        needs = self.needs(pieces) if self.firm else {}
        for shard in sorted(needs):  # in order, so that of two that want the same room one gets it
            self.reserved.append(shard)
            self.channel.shards.add(shard)
            asked = [[id, *need] for id, need in needs[shard].items()]
            self.full = yield from ask_shard(shard, to_shard.Reserve(self.channel.group, asked))
            if self.full is not None:
                raise self.no_room()

    def release(self) -> Asking:
        """Give back the reserved room."""
        reserved, self.reserved = self.reserved, []
        for shard in reserved:
            yield from ask_shard(shard, to_shard.Reserve(self.channel.group, ()))

    def needs(self, pieces: Sequence[Piece]) -> dict[int, dict[int, list[int]]]:
        """Return the messages and bytes for each queue that may refuse, by shard and queue id."""
        needs: dict[int, dict[int, list[int]]] = {}
        for run, route in pieces:
            nbytes = run.batch.body_bytes(run.first, run.count)
            for target in route.targets:
                of_shard = needs.setdefault(target.link.index, {})
                for id in target.queues:
                    if isinstance(id, int) and id not in route.powerless:
                        need = of_shard.setdefault(id, [0, 0])
                        need[0] += run.count
                        need[1] += nbytes
        for of_shard in needs.values():
            for id in [id for id in of_shard if not self.may_refuse(id)]:
                del of_shard[id]
        return {shard: of_shard for shard, of_shard in needs.items() if of_shard}

    def may_refuse(self, id: int) -> bool:
        """Whether a queue rejects messages for which it has no room."""
        queue = self.channel.acceptor.topology.queue_by_id(id)
        return queue is not None and overflow_on_wire(queue.limits) in REJECTING

    def start(self, done: Callable[[Any], None]) -> None:
        """Have `done` called once all of it is done, or refused."""
        self.done = done
        if self.over:
            done(None)

    def leave(self, pieces: Sequence[Piece]) -> None:
        """Put it into the turns of its shards; return or drop what no queue takes."""
        acceptor = self.channel.acceptor
        self.powerless = powerless_of(pieces)
        self.number = acceptor.next_transaction() if self.firm else 0
        for run, route in pieces:
            if not route.targets:
                unroutable(self.channel, run)
                continue
            nbytes = run.batch.body_bytes(run.first, run.count) if route.meters else 0
            for meter in route.meters:
                meter.spend(run.count, nbytes, self.channel)
            whole = run.batch.whole(run.first, run.count)
            for target in route.targets:
                self.commit(target.link).add(target.queues, run.batch, run.first, run.count)
                for queue_gate in target.queue_gates:
                    target.link.enter(queue_gate, run.count, whole)
            acceptor.counters.published += run.count
            self.channel.traffic.published += run.count
        for link, settlements in zip(acceptor.links, self.settlements[:-1], strict=True):
            if settlements:
                self.commit(link)
        self.over = not self.commits
        for index, commit in self.commits.items():
            acceptor.links[index].commit(commit)
        if self.firm:
            TwoPhase(self.number, [acceptor.links[index] for index in self.commits], self.ends).begin()
        self.channel.shared_prefetch.committed(self.settled)

    def commit(self, link: ShardLink) -> Commit:
        """Return the part of a shard, made at the first call."""
        commit = self.commits.get(link.index)
        if commit is None:
            settlements = self.settlements[link.index] or None
            decider = next(iter(self.commits), link.index)
            prepared = (self.number, self.channel.group, decider) if self.firm else None
            commit = self.commits[link.index] = Commit(self, settlements, self.powerless, prepared)
        return commit

    def refused_by(self, queue: int) -> None:
        """Record the queue that had no room."""
        self.full = queue

    def part_reported(self) -> None:
        """Process a shard's report that its part is taken in or refused; a `firm` one is ended by its coordinator."""
        if not self.firm:
            self.ends()

    def ends(self) -> None:
        """End it: nothing more is awaited."""
        self.over = True
        self.done(None)

    def no_room(self) -> AMQPError:
        """Return the error for a queue that is full."""
        queue = None if self.full is None else self.channel.acceptor.topology.queue_by_id(self.full)
        return amqp_error(406, f"transaction rolled back: no room in {queue or 'a queue that is gone'}")
