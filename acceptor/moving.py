"""Queues that move from one shard to another, as one acceptor sees them (docs/rebalancing.md).

      free ──(the router says so)──▶ fencing ──(FENCED)──▶ parted ──(decided: moved, or rolled back)──▶ home ──▶ free
                                     │    ▲
                  (the old home died)▼    │(its next life is told what is in hand)
                                     void ──(decided)──▶ home

While it is not free publishes to the queue wait at a gate, and requests about it wait as well. From FENCE on nothing
more goes to its old home but settlements; from FENCED on nothing comes from there, so what is in hand is known. Then it
is *parted*: consumer ids go by the index of no shard, and what is settled gathers here. At home, old or new, consumers
are attached again and what they have in hand is named, as to the next life of a shard; then what was settled follows.

Where the old home is not there, or dies before it has said FENCED, its next life is told all that, as of any queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.asking import Answer, ToShard
from acceptor.move_gate import MoveGate
from acceptor.unacked_cy import ROW_OCTETS, Settlements, readdress_rows
from penstock import bus
from router.model.records import HOMING, Move, Queue

if TYPE_CHECKING:
    from acceptor.channel_state import ChannelState
    from acceptor.consumers import Consumer
    from acceptor.delivery import Delivery
    from acceptor.gates import Gates
    from acceptor.state import AcceptorState

FENCING, VOID, PARTED, HOME = "fencing", "void", "parted", "home"

# Where requests have the id of the queue, or of a consumer; and the group of their channel.
QUEUE_AT = {bus.CONSUME: 3, bus.GET: 3, bus.PURGE: 2, bus.DELETE: 2, bus.STAT: 2}
NAMES_CONSUMER = (bus.CONSUME, bus.GET, bus.CANCEL)
GROUP_AT = {bus.CONSUME: 7, bus.GET: 5}


class Away:
    """A queue that is not free. `holders` are those who had something of it, by id, while it is parted: queue id and
    channel's group. `deferred` requests wait.
    """

    def __init__(self, move: Move, gate: MoveGate, stage: str) -> None:
        self.move = move
        self.gate = gate
        self.stage = stage
        self.holders: dict[int, tuple[int, int]] = {}
        self.deferred: list[tuple[ToShard, Callable[[Answer], None]]] = []


class Moves:
    """The queues that move, by id. `nowhere` is the index that their consumers go by while they are parted, `limbo`
    what is settled meanwhile. `rerouted` is called when publishes may go another way.
    """

    def __init__(self, acceptor: AcceptorState, gates: Gates, delivery: Delivery, rerouted: Callable[[], None]) -> None:
        self.acceptor = acceptor
        self.gates = gates
        self.delivery = delivery
        self.rerouted = rerouted
        self.nowhere = acceptor.nowhere
        self.limbo = acceptor.limbo
        self.away: dict[int, Away] = {}
        self.decided: list[Away] = []

    def gates_of(self, queues: tuple[Queue, ...]) -> list[MoveGate]:
        """The gates before those of some queues that move."""
        found = (self.away.get(queue.queue_id) for queue in queues)
        return [away.gate for away in found if away is not None and not away.gate.lifted]

    def shut_gates(self) -> list[MoveGate]:
        return [away.gate for away in self.away.values() if not away.gate.lifted]

    # What the router decides

    def follow(self, move: Move) -> None:
        away = self.away.get(move.queue_id)
        if away is None or away.move.epoch != move.epoch:
            self.over(move.queue_id)  # the end of an earlier move may have gone unseen
            away = self.begin(move)
        away.move = move
        if move.phase == HOMING and away.stage in (PARTED, VOID):
            self.decided.append(away)

    def begin(self, move: Move) -> Away:
        """A queue moves. Where it is said too late for that, it has its new home, and nothing here is in hand of it."""
        queue = self.acceptor.topology.queue_by_id(move.queue_id)
        assert queue is not None
        link = self.acceptor.links[move.source]
        asks = link.up and not (move.phase == HOMING and move.home != move.source)
        away = self.away[move.queue_id] = Away(move, MoveGate(move, queue), FENCING if asks else VOID)
        self.gates.away.leaves(queue)
        if asks:
            link.tell(bus.FENCE, move.queue_id, move.epoch)
        return away

    def over(self, id: int) -> None:
        """A move has ended; perhaps because the queue has."""
        away = self.away.get(id)
        if away is None:
            return
        if self.acceptor.topology.queue_by_id(id) is None:
            self.forget(away)
        elif away.stage != HOME:
            self.go_home(away)
        self.open(away)

    def keep_only(self, moves: dict[int, Move]) -> None:
        """After a snapshot: the end of a move may have gone unseen."""
        for id in self.away.keys() - moves.keys():
            self.over(id)

    def settle(self) -> None:
        """All changes of a version are known: go home with what is decided."""
        decided, self.decided = self.decided, []
        for away in decided:
            if away.stage in (PARTED, VOID) and away.move.queue_id in self.away:
                self.go_home(away)

    # What shards say

    def fenced(self, id: int, epoch: int) -> None:
        """Nothing more comes from the old home."""
        away = self.away.get(id)
        if away is not None and away.move.epoch == epoch and away.stage == FENCING:
            self.part(away)
            if away.move.phase == HOMING:
                self.go_home(away)

    def opened(self, id: int, epoch: int) -> None:
        """All acceptors have said what is in hand: the home takes what comes."""
        away = self.away.get(id)
        if away is not None and away.move.epoch == epoch and away.stage == HOME:
            self.open(away)
            self.rerouted()

    def shard_died(self, shard: int) -> None:
        for away in self.away.values():
            if away.move.source == shard and away.stage == FENCING:
                away.stage = VOID
                if away.move.phase == HOMING:
                    self.go_home(away)

    def went_on(self, shard: int) -> None:
        """The next life of a shard has been told of everything that is in hand."""
        link = self.acceptor.links[shard]
        for away in self.away.values():
            move = away.move
            if away.stage == HOME and move.home == shard:
                link.tell(bus.HOMED, move.queue_id, move.epoch)
            elif away.stage == VOID and move.phase != HOMING and move.source == shard:
                link.tell(bus.FENCE, move.queue_id, move.epoch)
                away.stage = FENCING

    # Steps

    def part(self, away: Away) -> None:
        """What is in hand goes by no shard from now on."""
        move, link = away.move, self.acceptor.links[away.move.source]
        known = {id: facts for id, facts in link.holders.known.items() if facts[0] == move.queue_id}
        ids = {*known, *(consumer.id for consumer in self.consumers_of(move.queue_id))}
        ids.update(channel.getters[move.queue_id] for channel in self.getting(move.queue_id))
        away.holders = {_at(id, self.nowhere): facts for id, facts in known.items()}
        self.readdress(ids, move.source, self.nowhere, move.queue_id)
        link.tell(bus.PARTED, move.queue_id, move.epoch)
        away.stage = PARTED

    def go_home(self, away: Away) -> None:
        """Tell the home what is in hand, if that has not been told."""
        move = away.move
        link = self.acceptor.links[move.home]
        if away.stage == PARTED:
            self.attach(away)
        away.stage = HOME
        if link.up:
            link.tell(bus.HOMED, move.queue_id, move.epoch)

    def attach(self, away: Away) -> None:
        """Attach consumers to the home, name what is in hand, and bring what was settled since."""
        move = away.move
        link = self.acceptor.links[move.home]
        consumers = self.consumers_of(move.queue_id)
        ids = {*away.holders, *(consumer.id for consumer in consumers)}
        ids.update(channel.getters[move.queue_id] for channel in self.getting(move.queue_id))
        settled = self.limbo.take_out(ids, move.home)
        held = self.readdress(ids, self.nowhere, move.home, move.queue_id)
        queue = self.acceptor.topology.queue_by_id(move.queue_id)
        for consumer in consumers:
            self.delivery.reported(consumer)
            consumer.queue = queue or consumer.queue
            consumer.channel.shards.add(move.home)
            consumer.channel.shared_prefetch.moved(move.home)
        for channel in self.getting(move.queue_id):
            channel.shards.add(move.home)
        groups = {group for _, group in away.holders.values()}
        for channel in self.acceptor.channels():
            if channel.group in groups:
                channel.shards.add(move.home)
        link.holders.known |= {_at(id, move.home): facts for id, facts in away.holders.items()}
        if not link.up:
            link.next.settlements.extend(settled, requeues=True)  # its next life is told all when it asks
            return
        at_home = {_at(id, move.home) for id in ids}
        for channel in self.acceptor.channels():
            channel.unacked.hold_of(at_home, held)
        held.extend(settled, requeues=True)
        link.cut(self.acceptor.topology.version)
        for consumer in consumers:
            if consumer.age:
                link.ask(consumer.operation(), partial(self.delivery.attached_again, consumer))
        holders = link.hold(held)
        if settled:
            link.settling(self.acceptor.now).extend(settled, requeues=False)
        living = {channel.group for channel in self.acceptor.channels()}
        for group in {group for _, _, group, _ in holders} - living:
            link.tell(bus.GONE, group)

    def forget(self, away: Away) -> None:
        """The queue is gone: its consumers are told, and what is settled of it nobody needs."""
        if away.stage != PARTED:
            return
        consumers = self.consumers_of(away.move.queue_id)
        ids = {*away.holders, *(consumer.id for consumer in consumers)}
        self.limbo.take_out(ids, away.move.source)
        self.readdress(ids, self.nowhere, away.move.source, away.move.queue_id)
        for consumer in consumers:
            self.delivery.cancelled(consumer.id)

    def open(self, away: Away) -> None:
        """Let in what has waited."""
        away.gate.lifted = True
        self.gates.freed |= away.gate.waiting
        self.gates.is_home(away.move.queue_id)
        if away.stage == HOME and away.move.queue_id in self.acceptor.topology.moves:
            deferred, away.deferred = away.deferred, []
        else:
            del self.away[away.move.queue_id]
            deferred = away.deferred
        living = {channel.group for channel in self.acceptor.channels()}
        for request, resume in deferred:
            at = GROUP_AT.get(request.operation[0])
            if at is None or request.operation[at] in living:
                shard = self.address(request.operation, request.shard, away.move.queue_id)
                self.acceptor.ask_at(shard, request.operation, resume)

    # Who has what

    def consumers_of(self, queue_id: int) -> list[Consumer]:
        return [each for each in self.delivery.consumers.values() if each.queue.queue_id == queue_id]

    def getting(self, queue_id: int) -> Iterator[ChannelState]:
        """The channels that have got from a queue."""
        return (channel for channel in self.acceptor.channels() if queue_id in channel.getters)

    def readdress(self, ids: set[int], old: int, new: int, queue_id: int) -> Settlements:
        """Have those ids go by another index, wherever they are; what is settled in transactions that are not
        committed.
        """
        held = Settlements()
        for channel in self.acceptor.channels():
            channel.unacked.readdress(ids, new)
            if channel.getters.get(queue_id) in ids:
                channel.getters[queue_id] = _at(channel.getters[queue_id], new)
            for transaction in channel.transactions():
                rows = transaction.settlements[old].take_out(ids, new)
                transaction.settlements[new].extend(rows, requeues=True)
                held.extend_held(rows)
                readdress_rows(transaction.journal, 0, len(transaction.journal) // ROW_OCTETS, ids, new)
        for consumer in self.consumers_of(queue_id):
            self.delivery.rename(consumer, _at(consumer.id, new))
        return held

    # Requests

    def ask(self, request: ToShard, resume: Callable[[Answer], None]) -> None:
        """Send a request to a shard, once the queue that it is about, if it is about one, is at home."""
        id = self.queue_of(request.operation)
        away = self.away.get(id) if self.away else None
        if away is not None and not away.gate.lifted:
            away.deferred.append((request, resume))
        else:
            self.acceptor.ask_at(self.address(request.operation, request.shard, id), request.operation, resume)

    def queue_of(self, operation: list[Any]) -> int:
        """The id of the queue that a request is about; 0 if it is about none."""
        at = QUEUE_AT.get(operation[0])
        if at is not None:
            id: int = operation[at]
            return id
        consumer = self.delivery.consumers.get(operation[2]) if operation[0] == bus.CANCEL else None
        return consumer.queue.queue_id if consumer is not None else 0

    def address(self, operation: list[Any], shard: int, queue_id: int) -> int:
        """The shard that a request about a queue goes to, which may be another one by now; who asks goes along."""
        queue = self.acceptor.topology.queue_by_id(queue_id)
        if queue is None:
            return shard
        if operation[0] in NAMES_CONSUMER:
            self.go_along(operation, queue)
        return queue.shard

    def go_along(self, operation: list[Any], queue: Queue) -> None:
        """Who is named by a request goes by the home of the queue, and is attached on the terms of now."""
        delivery = self.delivery
        id, operation[2] = operation[2], _at(operation[2], queue.shard)
        consumer = delivery.consumers.get(id) or delivery.consumers.get(operation[2])
        if consumer is None:
            return
        if consumer.id != operation[2]:
            delivery.rename(consumer, operation[2])
            consumer.queue = queue
            consumer.channel.shards.add(queue.shard)
            consumer.channel.shared_prefetch.moved(queue.shard)
        if operation[0] == bus.CONSUME:
            operation[:] = consumer.operation()


def _at(id: int, shard: int) -> int:
    """The id of a consumer, or of the gets of a channel, at another shard."""
    return id >> 8 << 8 | shard
