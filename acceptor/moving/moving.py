"""A queue's move from one shard to another: the acceptor's end (docs/rebalancing.md has the protocol).

Theory of operation. The router decides each step; the acceptor follows the record of the move in its replica. Until the
queue is free again, publishes to it wait at a gate and requests about it are deferred.

*Fencing.* Fence is the acceptor's last operation on the queue at the old home, but for settlements. Fenced comes once
everything sent before it is safe there, and nothing of the queue follows it. So the acceptor knows every unacked
message then. *Drained*: the acceptor sends Drained, after which the old home gets no settlements either;
consumer ids have the index of no shard, `nowhere`, and settlements of the queue gather in `limbo`. *Home*, old or new:
the acceptor re-attaches consumers and names their unacked messages, as to a new incarnation of a shard; then it sends
the settlements from `limbo`, and Reattached. When all acceptors have, the home sends Opened, and the gate is lifted.

Where the old home is down, or dies before Fenced (*void*), there is nothing to drain: its next incarnation is sent the
consumers and unacked messages of all its queues anyway, and then Fence, unless the move has been decided.

Invariant: at any time each consumer id of the queue names exactly one place, the old home, `nowhere` or the new home,
in consumers, unacked tags and open transactions alike; all are readdressed in one step. So every delivery is settled at
one home, once. Each operation of a move carries its epoch; those of shards with another epoch are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from acceptor.clients.asking import Answer, ToShard
from acceptor.gates.move_gate import MoveGate
from acceptor.links.unacked_cy import ROW_BYTES, Settlements, readdress_rows
from acceptor.moving.move_stage import MOVE, MoveEvent, MoveStage
from penstock.batch.consumer_ids import at_shard
from penstock.bus import to_acceptor, to_shard
from penstock.bus.link_stage import UP
from penstock.bus.to_shard import OF_QUEUE, Cancel, Consume, Get, Request
from penstock.states.transitions import Staged
from router.model.records import HOMING, PRECOPYING, Move, Queue

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.consumers import Consumer
    from acceptor.clients.state import AcceptorState
    from acceptor.consuming.delivery import Delivery
    from acceptor.routing.gates import Gates


class Away(Staged[MoveStage, MoveEvent]):
    """A queue that is not free. While it is drained, `holders` has queue id and channel's group of each consumer id
    that may have deliveries of it. `deferred` requests wait for its gate.
    """

    transitions = MOVE

    def __init__(self, move: Move, gate: MoveGate) -> None:
        self.move = move
        self.gate = gate
        self.stage = MoveStage.VOID
        self.holders: dict[int, tuple[int, int]] = {}
        self.deferred: list[tuple[ToShard, Callable[[Answer], None]]] = []


class Moves:
    """The queues that move, by id (`away`). The state's `nowhere` is the shard index of unassigned consumers, those of
    drained queues; `limbo` has the settlements of their deliveries. `decided` moves go home at `settle`. `rerouted` is
    called when publishes may go another way.
    """

    def __init__(self, acceptor: AcceptorState, gates: Gates, delivery: Delivery, rerouted: Callable[[], None]) -> None:
        self.acceptor = acceptor
        self.gates = gates
        self.delivery = delivery
        self.rerouted = rerouted
        self.away: dict[int, Away] = {}
        self.decided: list[Away] = []

    def gates_of(self, queues: tuple[Queue, ...]) -> list[MoveGate]:
        """Return the closed gates of those of these queues that move."""
        found = (self.away.get(queue.queue_id) for queue in queues)
        return [away.gate for away in found if away is not None and not away.gate.lifted]

    def shut_gates(self) -> list[MoveGate]:
        """Return the closed gates of all queues that move."""
        return [away.gate for away in self.away.values() if not away.gate.lifted]

    # Changes of the topology

    def apply(self, move: Move) -> None:
        """Handle a new or changed record of a move. Nothing is to be done until its queue is stopped."""
        if move.phase == PRECOPYING:
            self.over(move.queue_id)  # the end of an earlier move may have been missed
            return
        away = self.away.get(move.queue_id)
        if away is None or away.move.epoch != move.epoch:
            self.over(move.queue_id)
            away = self.begin(move)
        away.move = move
        if move.phase == HOMING and away.stage in (MoveStage.DRAINED, MoveStage.VOID):
            self.decided.append(away)

    def begin(self, move: Move) -> Away:
        """Close the gate of a queue that moves, and fence its old home if that is up. A move that becomes known when
        the queue has its new home already needs no fence: no channel here has unacked messages of it.
        """
        queue = self.acceptor.topology.queue_by_id(move.queue_id)
        assert queue is not None
        link = self.acceptor.links[move.source]
        asks = link.stage is UP and not (move.phase == HOMING and move.home != move.source)
        away = self.away[move.queue_id] = Away(move, MoveGate(move, queue))
        self.gates.away.leaves(queue)
        if asks:
            link.send(to_shard.Fence(move.queue_id, move.epoch))
            away.happened(MoveEvent.FENCE_SENT)
        return away

    def over(self, id: int) -> None:
        """A move has ended, or its queue was deleted: open the gate."""
        away = self.away.get(id)
        if away is None:
            return
        if self.acceptor.topology.queue_by_id(id) is None:
            self.forget(away)
        elif away.stage is not MoveStage.HOME:
            self.go_home(away)
        self.open(away)

    def keep_only(self, moves: dict[int, Move]) -> None:
        """After a snapshot: end the moves that are not in it."""
        for id in self.away.keys() - moves.keys():
            self.over(id)

    def settle(self) -> None:
        """All changes of a version are applied: go home with the queues whose move is decided."""
        decided, self.decided = self.decided, []
        for away in decided:
            if away.stage in (MoveStage.DRAINED, MoveStage.VOID) and away.move.queue_id in self.away:
                self.go_home(away)

    # Operations of shards

    def fenced(self, fenced: to_acceptor.Fenced) -> None:
        """The old home sends nothing more of the queue: drain it, and go home if the move is decided."""
        away = self.away.get(fenced.queue)
        if away is not None and away.move.epoch == fenced.epoch and away.stage is MoveStage.FENCING:
            self.part(away)
            if away.move.phase == HOMING:
                self.go_home(away)

    def opened(self, opened: to_acceptor.Opened) -> None:
        """All acceptors have named their unacked messages, and the home accepts publishes: open the gate."""
        away = self.away.get(opened.queue)
        if away is not None and away.move.epoch == opened.epoch and away.stage is MoveStage.HOME:
            self.open(away)
            self.rerouted()

    def shard_died(self, shard: int) -> None:
        """The old home of queues that are fencing died: there is nothing to drain."""
        for away in self.away.values():
            if away.move.source == shard and away.stage is MoveStage.FENCING:
                away.happened(MoveEvent.OLD_HOME_DIED)
                if away.move.phase == HOMING:
                    self.go_home(away)

    def resumed(self, shard: int) -> None:
        """A new incarnation of a shard was sent consumers and unacked messages: repeat Reattached to it, or Fence."""
        link = self.acceptor.links[shard]
        for away in self.away.values():
            move = away.move
            if away.stage is MoveStage.HOME and move.home == shard:
                link.send(to_shard.Reattached(move.queue_id, move.epoch))
            elif away.stage is MoveStage.VOID and move.phase != HOMING and move.source == shard:
                link.send(to_shard.Fence(move.queue_id, move.epoch))
                away.happened(MoveEvent.FENCE_SENT)

    # Steps

    def part(self, away: Away) -> None:
        """Drain a queue: its consumers and unacked messages belong to no shard from now on."""
        move, link = away.move, self.acceptor.links[away.move.source]
        known = {id: facts for id, facts in link.holders.known.items() if facts[0] == move.queue_id}
        ids = {*known, *(consumer.id for consumer in self.consumers_of(move.queue_id))}
        ids.update(channel.getters[move.queue_id] for channel in self.getting(move.queue_id))
        away.holders = {at_shard(id, self.acceptor.nowhere): facts for id, facts in known.items()}
        self.readdress(ids, move.source, self.acceptor.nowhere, move.queue_id)
        for channel in self.holding(away):
            channel.shared_prefetch.keep()
        link.send(to_shard.Drained(move.queue_id, move.epoch))
        away.happened(MoveEvent.DRAIN)

    def go_home(self, away: Away) -> None:
        """Attach to the decided home, unless it was sent everything as a new incarnation, and send Reattached."""
        move = away.move
        link = self.acceptor.links[move.home]
        if away.stage is MoveStage.DRAINED:
            self.attach(away)
        away.happened(MoveEvent.GO_HOME)
        if link.stage is UP:
            link.send(to_shard.Reattached(move.queue_id, move.epoch))

    def attach(self, away: Away) -> None:
        """Attach consumers to the home, name unacked messages, and send the settlements from limbo."""
        move = away.move
        link = self.acceptor.links[move.home]
        consumers = self.consumers_of(move.queue_id)
        ids = {*away.holders, *(consumer.id for consumer in consumers)}
        ids.update(channel.getters[move.queue_id] for channel in self.getting(move.queue_id))
        settled = self.acceptor.limbo.take_out(ids, move.home)
        held = self.readdress(ids, self.acceptor.nowhere, move.home, move.queue_id)
        queue = self.acceptor.topology.queue_by_id(move.queue_id)
        for consumer in consumers:
            self.delivery.reported(consumer)
            consumer.queue = queue or consumer.queue
            consumer.channel.shards.add(move.home)
            consumer.channel.shared_prefetch.moved(move.home)
        for channel in self.getting(move.queue_id):
            channel.shards.add(move.home)
        for channel in self.holding(away):
            channel.shards.add(move.home)
            if move.source in channel.shared_prefetch.shards:
                channel.shared_prefetch.moved(move.home)
        link.holders.known |= {at_shard(id, move.home): facts for id, facts in away.holders.items()}
        if link.stage is not UP:
            # The next incarnation is sent everything else.
            link.turn.contents.settlements.extend(settled, requeues=True)
            return
        at_home = {at_shard(id, move.home) for id in ids}
        for channel in self.acceptor.channels():
            channel.unacked.hold_of(at_home, held)
        held.extend(settled, requeues=True)
        link.cut(self.acceptor.topology.version)
        for consumer in consumers:
            if consumer.age:
                link.ask(consumer.request(), partial(self.delivery.attached_again, consumer))
        holders = link.hold(held)
        if settled:
            link.turn.settling(self.acceptor.now).extend(settled, requeues=False)
        living = {channel.group for channel in self.acceptor.channels()}
        for group in {group for _, _, group, _ in holders} - living:
            link.send(to_shard.Gone(group))

    def forget(self, away: Away) -> None:
        """Cancel the consumers of a drained queue that was deleted, and drop the settlements of its deliveries."""
        if away.stage is not MoveStage.DRAINED:
            return
        consumers = self.consumers_of(away.move.queue_id)
        ids = {*away.holders, *(consumer.id for consumer in consumers)}
        self.acceptor.limbo.take_out(ids, away.move.source)
        self.readdress(ids, self.acceptor.nowhere, away.move.source, away.move.queue_id)
        for consumer in consumers:
            self.delivery.cancelled(consumer.id)

    def open(self, away: Away) -> None:
        """Lift the gate of a queue, and send its deferred requests. It stays in `away` until the move is over."""
        away.gate.lifted = True
        self.gates.freed |= away.gate.waiting
        self.gates.is_home(away.move.queue_id)
        if away.stage is MoveStage.HOME and away.move.queue_id in self.acceptor.topology.moves:
            deferred, away.deferred = away.deferred, []
        else:
            del self.away[away.move.queue_id]
            deferred = away.deferred
        living = {channel.group for channel in self.acceptor.channels()}
        for asked, resume in deferred:
            if not isinstance(asked.request, Consume | Get) or asked.request.group in living:
                shard, request = self.address(asked, away.move.queue_id)
                self.acceptor.ask_at(shard, request, resume)

    # Consumers and channels

    def consumers_of(self, queue_id: int) -> list[Consumer]:
        """Return the consumers of a queue."""
        return [each for each in self.delivery.consumers.values() if each.queue.queue_id == queue_id]

    def holding(self, away: Away) -> list[ChannelState]:
        """Return the channels that may have unacked messages of a drained queue."""
        groups = {group for _, group in away.holders.values()}
        return [channel for channel in self.acceptor.channels() if channel.group in groups]

    def getting(self, queue_id: int) -> Iterator[ChannelState]:
        """Return the channels that have received messages of a queue by basic.get."""
        return (channel for channel in self.acceptor.channels() if queue_id in channel.getters)

    def readdress(self, ids: set[int], old: int, new: int, queue_id: int) -> Settlements:
        """Give consumer ids the index of another shard, wherever they occur. Return the settlements with them in
        transactions that are not committed.
        """
        held = Settlements()
        for channel in self.acceptor.channels():
            channel.unacked.readdress(ids, new)
            if channel.getters.get(queue_id) in ids:
                channel.getters[queue_id] = at_shard(channel.getters[queue_id], new)
            for transaction in channel.transactions():
                rows = transaction.settlements[old].take_out(ids, new)
                transaction.settlements[new].extend(rows, requeues=True)
                held.extend_held(rows)
                readdress_rows(transaction.journal, 0, len(transaction.journal) // ROW_BYTES, ids, new)
        for consumer in self.consumers_of(queue_id):
            self.delivery.rename(consumer, at_shard(consumer.id, new))
        return held

    # Requests

    def ask(self, asked: ToShard, resume: Callable[[Answer], None]) -> None:
        """Send a request to a shard; if it is about a queue that moves, once that is at home."""
        id = self.queue_of(asked.request)
        away = self.away.get(id) if self.away else None
        if away is not None and not away.gate.lifted:
            away.deferred.append((asked, resume))
        else:
            shard, request = self.address(asked, id)
            self.acceptor.ask_at(shard, request, resume)

    def queue_of(self, request: Request) -> int:
        """Return the id of the queue that a request is about; 0 if it is about none."""
        if isinstance(request, OF_QUEUE):
            return request.queue
        consumer = self.delivery.consumers.get(request.consumer) if isinstance(request, Cancel) else None
        return consumer.queue.queue_id if consumer is not None else 0

    def address(self, asked: ToShard, queue_id: int) -> tuple[int, Request]:
        """Return the shard of the queue that a request is about, which may have moved, and the request; a consumer that
        it names moves along.
        """
        queue = self.acceptor.topology.queue_by_id(queue_id)
        if queue is None:
            return asked.shard, asked.request
        if isinstance(asked.request, Consume | Get | Cancel):
            return queue.shard, self.go_along(asked.request, queue)
        return queue.shard, asked.request

    def go_along(self, request: Consume | Get | Cancel, queue: Queue) -> Request:
        """Return a request with the index of the queue's home in its consumer id, a Consume on the present terms."""
        delivery, id = self.delivery, at_shard(request.consumer, queue.shard)
        consumer = delivery.consumers.get(request.consumer) or delivery.consumers.get(id)
        if consumer is not None and consumer.id != id:
            delivery.rename(consumer, id)
            consumer.queue = queue
            consumer.channel.shards.add(queue.shard)
            consumer.channel.shared_prefetch.moved(queue.shard)
        if consumer is not None and isinstance(request, Consume):
            return consumer.request()
        return request._replace(consumer=id)
