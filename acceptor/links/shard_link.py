"""The acceptor's link to one shard: the turn being written, and the earlier turns that are not safe at the shard yet.

Theory of operation. Operations are collected in a turn (`turn`), with the contents that must not be lost. `leave` gives
the turn its number, counted from 1 through all incarnations of the shard, and moves its contents to the end of `sent`.
Each turn of the shard brings a *report*: the number of the last turn that is safe there. `processed` then removes the
turns up to it from `sent`, subtracts their load from `in_flight`, and lets their spans wait for one shard less.
Outcomes in the same turn of the shard (Rejected, Refused) are handled before its report, while `sent` still has the
turns that they name.

*Greeting* (`penstock.bus.link_stage`). A new incarnation is sent a hello and nothing else; operations gather in the
turn. Its first report says which turns its predecessor made safe. *Resending.* `resume` then sends one turn that
attaches the consumers again and names the unacked messages (Hold), and a second one with the contents of all turns that
were not safe, in order, under a new number, and the requests without an answer.

Invariant: every publish, commit and settlement is in `sent` or `turn`, in order, until a report covers its turn, and a
turn that a report covers is never resent. So the death of a shard loses none of them that was not reported, repeats
none that was, and changes no order; only an operation that is given up (acceptor/moving/suspects.py) is dropped.

Publishes of a turn that go to the same queues are sent as one batch where that keeps their order: many small writers
then cost what one big writer costs.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from acceptor.gates.cause import Depth, HoldCause
from acceptor.gates.confirms import Span
from acceptor.gates.gate import WaitingChannel, serve
from acceptor.gates.pressure import RESOURCES
from acceptor.gates.queue_gate import QueueGate, QueueLane
from acceptor.links.delivered_to import DeliveredTo
from acceptor.links.in_flight_cy import InFlight
from acceptor.links.outgoing import OutgoingTurn
from acceptor.links.sent import OWN_PARTS, Commit, Returns, Sent, paced_among
from acceptor.links.unacked_cy import Settlements
from acceptor.links.weights import PASSING, WHOLE, weight_of
from penstock import bus
from penstock.batch.batch_cy import Batch, BatchBuilder
from penstock.bus import to_acceptor, to_shard
from penstock.bus.link_stage import LINK, UP, LinkEvent, LinkStage
from penstock.bus.operations_cy import Operation
from penstock.bus.to_shard import LEAVES_IN_GROUP, Consume, Get, Request
from penstock.memory.gauges import Gauges
from penstock.states.transitions import Staged
from penstock.telemetry.schema import Cause
from penstock.tracing.trace_context import TraceContext

if TYPE_CHECKING:
    from acceptor.links.contained import Breakable

# The answer to requests to a shard that was removed.
GONE_FOR_GOOD = [404, "its queue is gone"]

Reply = Callable[[Any, Sequence[Any] | None, Sequence[Any]], None]


def ends_channel(operations: Sequence[Operation]) -> bool:
    """Whether one of the operations tells the shard of the end of a channel."""
    return any(isinstance(operation, to_shard.Gone) for operation in operations)


class ShardLink(Staged[LinkStage, LinkEvent]):
    """The link to one shard, which is a gate as well: all that is in flight to the shard is bounded.

    `closed` turns are to be sent before the one being written. `last_report` is the last report, of any incarnation;
    `announced_epoch` the flow epoch of the last stop that was announced to the waiting channels; `left_at` when a turn
    was sent last. `unreported_bytes` is the size of the turns in `sent`. `withheld` has the spans of publishes that
    are safe and not confirmed, by turn and index of their operation; done ones may be among them for a moment.
    `dequeued` are Dequeued operations of a shard's turn whose report is not applied yet, and may be the first to call
    those publishes safe. `suspect` is the operation that the last incarnations ended at, and how many did; `gave_up`
    that something is not resent (`acceptor.moving.suspects`).
    """

    transitions = LINK
    opens_with_time = False

    def __init__(self, index: int, gauges: Gauges, acceptor: int, max_count: int, max_bytes: int) -> None:
        self.index = index
        self.gauges = gauges
        self.acceptor = acceptor
        self.stage = LinkStage.ABSENT
        self.number = 0
        self.last_report = 0
        self.counts = False
        self.announced_epoch = -1
        self.left_at = 0.0
        self.in_flight = InFlight(max_count, max_bytes)
        self.unreported_bytes = 0
        self.sent: deque[Sent] = deque()
        self.withheld: dict[tuple[int, int], list[tuple[int, Span]]] = {}
        self.dequeued: list[to_acceptor.Dequeued] = []
        self.suspect: tuple[object, int] | None = None
        self.gave_up = False
        self.terms = None
        self.waiting: OrderedDict[WaitingChannel, None] = OrderedDict()
        self.closed: deque[list[Any]] = deque()
        self.requests: dict[int, tuple[Request, Reply]] = {}
        self.holders = DeliveredTo()
        self.last_request = 0
        self.turn = OutgoingTurn(index)

    def __str__(self) -> str:
        """Describe the link for an operator or a client, with the reason that the shard gives for a stop."""
        gate = self.gauges.queue_read(self.index)
        return f"shard {self.index}: {gate.name}" if gate and gate.name else f"shard {self.index}"

    # As a gate

    def describe(self) -> HoldCause:
        """Describe the resource that the shard lacks, or `link` where no more may be in flight to it."""
        name, gauge = f"shard {self.index}", self.gauges.queue_read(self.index)
        column: Cause = "link"
        depth = Depth()
        if gauge is not None and gauge.saturated:
            # No resource above its resume mark: the store itself is in trouble.
            column = RESOURCES[gauge.consumers] if gauge.ready else "store"
            if column == "memory":
                depth = Depth(size=gauge.ready_bytes, mark=gauge.marks.stop_bytes)
        return HoldCause("shard", str(self), name, column, shard=self.index, depth=depth)

    def is_saturated(self) -> bool:
        """Whether the shard stops all its producers, for want of memory say."""
        return self.gauges.saturated(self.index)

    def flow_epoch(self) -> int:
        """Return the number of the shard's present stop or resume."""
        return self.gauges.flow_epoch(self.index)

    def room(self) -> tuple[int, int]:
        """Return (messages, bytes) that may be sent at present; none unless the link is up and the shard has room."""
        return (0, 0) if self.stage is not UP or self.gauges.saturated(self.index) else self.in_flight.room()

    some_room = room

    def admits(self, count: int, nbytes: int) -> bool:
        """Whether these messages and bytes may be sent at once. Any amount may while nothing is in flight."""
        room, space = self.room()
        return (count <= room and nbytes <= space) or (room > 0 and self.in_flight.is_empty())

    def serve(self) -> None:
        """Admit waiting channels, as far as there is room."""
        serve(self)

    # Into the turn

    def publish(
        self, queues: tuple[int | str, ...], batch: Batch, first: int, count: int, span: Span | None,
        returns: Returns | None = None, slots: tuple[int, ...] = (), age: int = 0, sender: Breakable | None = None,
        trace: TraceContext | None = None,
    ) -> None:  # fmt: skip
        """Publish `count` messages from row `first` of a batch to queues of this shard, `slots` in the gauges.

        For their expiry the messages are `age` milliseconds old. `sender` is the channel that published them; `trace`
        the place of a single message in its trace.
        """
        nbytes = batch.nbytes(first, count)
        alone = nbytes >= OWN_PARTS or age > 0 or trace is not None
        publish = None if alone else self.turn.joined(queues)
        if publish is None:
            publish = self.turn.open_publish(queues, weight_of(self.gauges, slots))
        self.weigh(publish.weight, batch, count, nbytes)
        if alone:
            publish.age, publish.trace = age, trace
            publish.batch, publish.first, publish.count = batch, first, count
            publish.add_origin(0, count, span, returns, sender)
            return
        if publish.builder is None:
            publish.builder = BatchBuilder()
        publish.add_origin(publish.count, count, span, returns, sender)
        publish.builder.extend(batch, first, count)
        publish.count += count

    def weigh(self, weight: int, batch: Batch, count: int, nbytes: int) -> None:
        """Count a publish as in flight, at its weight. The bytes of large contents that only pass weigh less too where
        they are lent: the shard never reads them then.
        """
        of_bytes = weight
        if weight == PASSING and (nbytes < OWN_PARTS * count or bus.loan_of(batch.contents) is None):
            of_bytes = WHOLE
        self.in_flight.add(self.turn.contents.load, count, nbytes, weight, of_bytes)

    def commit(self, commit: Commit) -> None:
        """Put this shard's part of a transaction into the turn."""
        self.turn.commit(commit)
        self.in_flight.add(self.turn.contents.load, commit.count, commit.nbytes, WHOLE, WHOLE)

    def enter(self, queue_gate: QueueGate | QueueLane, count: int, nbytes: int) -> None:
        """Count messages and bytes of this turn as in flight to the queue of a queue gate, or by its lane."""
        queue_gate.in_flight += count
        queue_gate.in_flight_bytes += nbytes
        self.under_way(queue_gate, count, nbytes)

    def under_way(self, queue_gate: QueueGate | QueueLane, count: int, nbytes: int) -> None:
        """Record an amount that this turn puts in flight for a queue gate; `processed` subtracts it there."""
        known = self.turn.contents.queue_gates.get(queue_gate)
        if known is None:
            self.turn.contents.queue_gates[queue_gate] = [count, nbytes]
        else:
            known[0] += count
            known[1] += nbytes

    def is_bound_for(self, queue: int) -> bool:
        """Whether a publish to a queue, or the end of a channel, which may have consumed from it, is on its way to the
        shard or not reported yet.
        """
        if queue in self.turn.latest or ends_channel(self.turn.operations):
            return True
        return any(
            ends_channel(turn.operations) or any(queue in publish.queues for publish in turn.publishes.values())
            for turn in self.sent
        )

    def waits(self, now: float) -> bool:
        """Whether nothing in the turn is urgent, so that it may wait for more."""
        return self.turn.waits(now, self.left_at, bool(self.sent))

    def send(self, operation: Operation) -> None:
        """Append an operation that has no answer; dropped while the shard is absent."""
        if self.stage is not LinkStage.ABSENT:
            self.turn.add(operation)

    def ask(self, request: Request, reply: Reply) -> None:
        """Append a request, and number it. `reply` gets the result, error and parts."""
        self.last_request += 1
        request = request._replace(request=self.last_request)
        self.requests[self.last_request] = (request, reply)
        if isinstance(request, Consume | Get):
            self.holders.record(request.consumer, request.queue, request.group)
        self.turn.add(request)

    def end_group(self, group: int) -> None:
        """A channel ended: have its unacked messages requeued, and repeat no request of it to a later incarnation."""
        for number, (request, _) in list(self.requests.items()):
            if isinstance(request, LEAVES_IN_GROUP) and request.group == group:
                del self.requests[number]
        self.send(to_shard.Gone(group))

    def close_turn(self, version: int, now: float) -> list[Any] | None:
        """Return the next multipart to send; None if there is none, the shard is not up, or the turn waits for more."""
        if self.stage is not UP:
            return self.hello(version) if self.stage is LinkStage.GREETING else None
        if self.closed:
            return self.closed.popleft()
        if not self.turn.operations or self.waits(now):
            return None
        self.left_at = now
        return self.leave(version)

    def cut(self, version: int) -> None:
        """Close the turn, so that the shard finishes it before it begins with later operations."""
        if self.stage is UP and self.turn.operations:
            self.closed.append(self.leave(version))

    def leave(self, version: int) -> list[Any]:
        """Number the turn, move it to `sent` and begin the next one. Return its multipart."""
        self.number += 1
        sent, frames = self.turn.leave(self.number, version, self.last_report)
        self.unreported_bytes += sent.nbytes
        self.count_sent(sent.nbytes)
        self.sent.append(sent)
        self.turn = OutgoingTurn(self.index)
        return frames

    def count_sent(self, nbytes: int) -> None:
        """Add bytes to the gauge of this pair of acceptor and shard."""
        if self.counts:
            self.gauges.pair_add_sent(self.acceptor, self.index, nbytes)

    def begin_counting(self) -> None:
        """Begin to count sent bytes in the gauges of the pair: no predecessor of this acceptor writes them any more."""
        if not self.counts:
            self.counts = True
            self.gauges.pair_reset_sent(self.acceptor, self.index)
            self.count_sent(self.unreported_bytes)

    def hello(self, version: int) -> list[Any]:
        """Return the first multipart to a new incarnation: turn number 0, without operations."""
        self.happened(LinkEvent.HELLO_SENT)
        frames = bus.Turn().frames(bus.HELLO, version)
        self.count_sent(len(frames[0]))
        return frames

    # From the shard

    def rejected(self, rejected: to_acceptor.Rejected) -> None:
        """A queue refused rows of a publish: have their spans nack them, return mandatory ones."""
        turn, index, queue, first, count = rejected
        for sent in self.sent:
            if sent.number == turn:
                publish = sent.publishes[index]
                for start, span in publish.spans:
                    low, high = max(first, start), min(first + count, start + span.count)
                    if low < high and span.heeds(queue):
                        span.reject(low - start, high - low)
                publish.give_back(queue, first, count)
                return

    def refused(self, refused: to_acceptor.Refused) -> None:
        """A queue had no room for a transaction, so the shard has refused all of it."""
        for sent in self.sent:
            if sent.number == refused.turn:
                sent.commits[refused.commit].transaction.refused_by(refused.queue)

    def processed(self, number: int) -> None:
        """Apply a report: all turns up to `number` are safe at the shard."""
        self.last_report = max(self.last_report, number)
        served: dict[QueueGate | QueueLane, None] = {}
        commits: list[Commit] = []
        while self.sent and self.sent[0].number <= number:
            sent = self.sent.popleft()
            self.unreported_bytes -= sent.nbytes
            self.in_flight.load.leave(sent.load)
            for index, publish in sent.publishes.items():
                waits = False
                for _, span in publish.spans:
                    span.settle_one()
                    waits |= not span.done
                if waits:
                    self.withheld[sent.number, index] = publish.spans
            commits += sent.commits.values()
            for queue_gate, (count, nbytes) in sent.queue_gates.items():
                queue_gate.arrived(count, nbytes)
                if queue_gate.waiting:
                    served[queue_gate] = None
        if not self.sent:
            self.suspect = None
        if self.counts and not self.sent:  # a part may have been received before this acceptor began to count
            self.gauges.pair_reset_sent(self.acceptor, self.index)
        for commit in commits:
            commit.transaction.part_reported()
        for queue_gate in served:
            queue_gate.serve()
        if self.waiting:
            self.serve()

    def give_dequeued(self, queue_gate: QueueGate, rows: Sequence[int]) -> None:
        """Publishes have left a saturated queue for good. `rows` has turn, index, first row and count of each part."""
        numbers = iter(rows)
        for turn, index, first, count in zip(numbers, numbers, numbers, numbers, strict=True):
            for start, span in self.withheld.get((turn, index), ()):
                low, high = max(first, start), min(first + count, start + span.count)
                if low < high:
                    span.leave(queue_gate, low - start, high - low)
        queue_gate.forget_given()

    def forget_given(self) -> None:
        """Drop confirmed spans from `withheld`."""
        self.withheld = {at: spans for at, spans in self.withheld.items() if not all(span.done for _, span in spans)}

    def replied(self, request: int, result: Any, error: Sequence[Any] | None, parts: Sequence[Any]) -> None:
        """Pass the answer to a request on, unless its channel is gone."""
        _, reply = self.requests.pop(request, (None, None))
        if reply is not None:
            reply(result, error, parts)

    # Incarnations of the shard

    def died(self) -> None:
        """The shard died. Turns that were not safe are kept; `resume` resends those unknown to its successor."""
        self.happened(LinkEvent.DIED)
        self.closed.clear()

    def start(self) -> None:
        """Greet a new incarnation: it must report which turns are safe before it is sent any."""
        self.happened(LinkEvent.STARTED)
        if self.counts:
            self.gauges.pair_reset_sent(self.acceptor, self.index)

    def end(self) -> None:
        """The shard was removed, and its queues are gone: count all turns as safe, and answer all requests with 404."""
        self.happened(LinkEvent.REMOVED)
        self.closed.clear()
        self.number += 1
        self.turn.contents.number = self.number
        self.sent.append(self.turn.contents)
        requests, self.requests = self.requests, {}
        self.turn = OutgoingTurn(self.index)
        self.processed(self.number)
        self.in_flight.forget()
        self.unreported_bytes = 0
        for _, reply in requests.values():
            reply(None, GONE_FOR_GOOD, ())

    def unsafe(self) -> list[Sent]:
        """Return the turns that are not reported as safe, and the one being written, in order."""
        return [*self.sent, self.turn.contents]

    def resume(self, version: int, consumers: list[tuple[Consume, Reply]], held: Settlements, living: set[int]) -> None:
        """Resume after the first report of a new incarnation: one turn attaches consumers and names unacked messages,
        the next one resends the turns that are not safe.

        `held` are rows of all deliveries that are not settled for good, `living` the groups of existing channels.
        """
        unsafe, latest = self.unsafe(), self.turn.latest
        for sent in self.sent:
            for publish in sent.publishes.values():
                publish.leave_again()
        self.sent.clear()
        self.in_flight.forget()
        self.unreported_bytes = 0
        self.happened(LinkEvent.REPORTED)
        for number, (request, _) in list(self.requests.items()):
            if isinstance(request, Consume) and request.age:
                del self.requests[number]
        asked = [request for request, _ in self.requests.values()]
        self.turn = OutgoingTurn(self.index)
        for consume, reply in consumers:
            self.ask(consume, reply)
        holders = self.hold(held)
        paced = paced_among(unsafe)
        for (pace, queue_gate), count in paced.items():
            pace.come_again(queue_gate, count)
        self.closed.append(self.leave(version))
        for sent in unsafe:
            self.bring_again(sent)
        for (pace, queue_gate), count in paced.items():
            pace.came_again(queue_gate, count)
        # behind the publishes: a channel publishes nothing while it awaits an answer
        self.turn.operations.extend(asked)
        for group in {group for _, _, group, _ in holders} - living:
            self.send(to_shard.Gone(group))
        if self.gave_up and not self.turn.operations:
            # An operation that was given up counts as in flight until a turn with its load is safe.
            self.send(to_shard.Window({}))
        self.gave_up = False
        self.turn.latest = latest
        if self.waiting:
            self.serve()

    def hold(self, held: Settlements) -> list[list[Any]]:
        """Name unacked and returned messages (Hold); returned ones are named to every incarnation until one has them
        safe. Return the holders, past ones included: [consumer, queue id, group, stands for gets] of each.
        """
        holders = self.holders.named(held.consumers())
        contents = self.turn.contents
        if contents.returned is None:
            contents.returned = Settlements()
        contents.returned.extend_returned(held)
        self.send(to_shard.Hold(holders, self.turn.place(held.finish())))
        return holders

    def bring_again(self, sent: Sent) -> None:
        """Put the contents of an earlier turn into this one, but for requeued messages: Hold has named those."""
        if sent.settlements:
            self.turn.settling(0.0).extend(sent.settlements, requeues=False)
        for index in sorted({*sent.publishes, *sent.commits}):
            if index in sent.commits:
                sent.commits[index].leave_again()
                self.turn.mark(sent.commits[index])
            else:
                self.turn.contents.publishes[self.turn.reserve()] = sent.publishes[index]
        for queue_gate, (count, nbytes) in sent.queue_gates.items():
            self.under_way(queue_gate, count, nbytes)
        self.turn.contents.load.join(sent.load)
        self.in_flight.load.join(sent.load)
