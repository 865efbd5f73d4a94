"""The acceptor's side of one shard: the turn being written, and what of earlier ones is not safe there.

Publishes of a turn that go to the same queues leave as one batch where that keeps their order: many small writers
then cost what one big writer costs.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from acceptor.confirms import Span
from acceptor.gate import Session, serve
from acceptor.holders import Holders
from acceptor.in_flight_cy import InFlight
from acceptor.inlet import Inlet, QueueLane
from acceptor.sent import OWN_PARTS, Commit, Publish, Returns, Sent, paced_among
from acceptor.unacked_cy import Settlements
from acceptor.weights import PASSING, WHOLE, weight_of
from penstock import bus
from penstock.batch.batch_cy import Batch, BatchBuilder
from penstock.memory.gauges import Gauges

if TYPE_CHECKING:
    from acceptor.contained import Breakable

# How long settlements that nobody waits for may wait for something else to leave with.
SETTLING_SECONDS = 0.001
# Where requests that leave something with their channel's group name it.
GROUP_OF = {bus.CONSUME: 7, bus.GET: 5, bus.LIMIT: 2, bus.RESERVE: 2}
# Where CONSUME has the consumer's age.
AGE = 11
# So many octets of large contents are enough for a turn.
RIDING = 1024 * 1024
# More than that comes from who goes on sending: a turn of them is worth waiting for more.
STREAMING = 256 * 1024

# The answer to what was asked of a shard that was removed.
GONE_FOR_GOOD = [404, "its queue is gone"]

Reply = Callable[[Any, list[Any] | None, Sequence[Any]], None]


class ShardLink:
    """One shard as an acceptor sees it. It is a gate as well: all that is in flight to the shard is bounded.

    A new life of the shard is first sent a hello (`greets` until then, `awaits` until that is answered); then it is
    `up`. Before that operations wait in the turn; while it is `absent` there is no such shard. `closed` turns are to be
    sent before the one being written. `heard` is the last report, of any life; `told` the flow epoch whose stop all who
    wait have been told of; `left_at` when a turn left last. `unheard_octets` are those of turns that have left and are
    not taken in. `withheld` has the spans of publishes that are safe and not confirmed, by turn and index of their
    operation; done ones may be among them for a moment. `dequeued` is what DEQUEUED has said in a turn whose report is
    not taken in yet, which may be the first to call these safe. `suspect` is what its last lives have ended at, and how
    many; `gave_up` that something is not sent again (`acceptor.suspects`).
    """

    opens_with_time = False

    def __init__(self, index: int, gauges: Gauges, acceptor: int, max_count: int, max_octets: int) -> None:
        self.index = index
        self.gauges = gauges
        self.acceptor = acceptor
        self.up = False
        self.greets = False
        self.awaits = False
        self.absent = True
        self.number = 0
        self.heard = 0
        self.counts = False
        self.told = -1
        self.left_at = 0.0
        self.in_flight = InFlight(max_count, max_octets)
        self.unheard_octets = 0
        self.sent: deque[Sent] = deque()
        self.withheld: dict[tuple[int, int], list[tuple[int, Span]]] = {}
        self.dequeued: list[tuple[int, list[int]]] = []
        self.suspect: tuple[object, int] | None = None
        self.gave_up = False
        self.terms = None
        self.waiting: OrderedDict[Session, None] = OrderedDict()
        self.closed: deque[list[Any]] = deque()
        self.requests: dict[int, tuple[list[Any], Reply]] = {}
        self.holders = Holders()
        self.last_request = 0
        self.begin_turn()

    def __str__(self) -> str:
        """What an operator or a client is told: the shard says why it is saturated."""
        gate = self.gauges.queue_read(self.index)
        return f"shard {self.index}: {gate.name}" if gate and gate.name else f"shard {self.index}"

    def begin_turn(self) -> None:
        self.turn = bus.Turn(self.index)
        self.next = Sent()
        self.settle_operation: list[Any] | None = None
        self.settling_since = 0.0
        self.hurries = False
        self.windows: dict[int, int] | None = None
        self.latest: dict[int | str, Publish] = {}

    # As a gate

    def is_saturated(self) -> bool:
        return self.gauges.saturated(self.index)

    def flow_epoch(self) -> int:
        return self.gauges.flow_epoch(self.index)

    def room(self) -> tuple[int, int]:
        return (0, 0) if not self.up or self.gauges.saturated(self.index) else self.in_flight.room()

    some_room = room

    def admits(self, count: int, octets: int) -> bool:
        """Whether so much may be sent at once. More than may ever be in flight may once nothing is."""
        room, space = self.room()
        return (count <= room and octets <= space) or (room > 0 and self.in_flight.is_empty())

    def serve(self) -> None:
        serve(self)

    # What goes into the turn

    def publish(
        self, queues: tuple[int | str, ...], batch: Batch, first: int, count: int, span: Span | None,
        returns: Returns | None = None, slots: tuple[int, ...] = (), age: int = 0, sender: Breakable | None = None,
    ) -> None:  # fmt: skip
        """Publish `count` messages from row `first` of a batch to queues of this shard, `slots` in the gauges.

        They came `age` milliseconds ago, as far as their expiry goes, by the channel `sender`.
        """
        octets = batch.octets(first, count)
        publish = None
        if octets < OWN_PARTS and not age:
            publish = self.latest.get(queues[0])
            if publish is not None and not self.may_join(publish, queues):
                publish = None
        if publish is None:
            publish = self.open_publish(queues, weight_of(self.gauges, slots))
        self.weigh(publish.weight, batch, count, octets)
        if age:
            publish.operation[5:] = [False, age]
        if octets >= OWN_PARTS or age:
            publish.batch, publish.first, publish.count = batch, first, count
            publish.note(0, count, span, returns, sender)
            return
        if publish.builder is None:
            publish.builder = BatchBuilder()
        publish.note(publish.count, count, span, returns, sender)
        publish.builder.extend(batch, first, count)
        publish.count += count

    def weigh(self, weight: int, batch: Batch, count: int, octets: int) -> None:
        """Count what is published as in flight. The octets of large contents that only pass weigh less too where they
        are lent: then the shard never reads them.
        """
        of_octets = weight
        if weight == PASSING and (octets < OWN_PARTS * count or bus.loan_of(batch.contents) is None):
            of_octets = WHOLE
        self.in_flight.add(self.next.load, count, octets, weight, of_octets)

    def may_join(self, publish: Publish, queues: tuple[int | str, ...]) -> bool:
        """Whether more may join an earlier publish without overtaking another one to any of its queues."""
        return (
            publish.batch is None
            and publish.queues == queues
            and (len(queues) == 1 or all(self.latest.get(queue) is publish for queue in queues))
            and publish.builder is not None
            and publish.builder.used < 16 * OWN_PARTS
        )

    def open_publish(self, queues: tuple[int | str, ...], weight: int) -> Publish:
        publish = Publish(queues, weight)
        self.next.publishes[len(self.turn.operations)] = publish
        self.turn.operations.append(publish.operation)
        for queue in queues:
            self.latest[queue] = publish
        return publish

    def commit(self, commit: Commit) -> None:
        """Put this shard's part of a transaction into the turn."""
        self.mark(commit)
        for publish in commit.publishes:
            publish.finish()  # nothing else may join it
            for queue in publish.queues:
                self.latest[queue] = publish
            self.next.publishes[len(self.turn.operations)] = publish
            self.turn.operations.append(publish.operation)
        self.in_flight.add(self.next.load, commit.count, commit.octets, WHOLE, WHOLE)

    def mark(self, commit: Commit) -> None:
        self.next.commits[len(self.turn.operations)] = commit
        self.turn.operations.append(commit.operation)

    def enter(self, inlet: Inlet | QueueLane, count: int, octets: int) -> None:
        """So much of what is published in this turn is for the queue of an inlet, or by its lane."""
        inlet.in_flight += count
        inlet.in_flight_bytes += octets
        self.under_way(inlet, count, octets)

    def under_way(self, inlet: Inlet | QueueLane, count: int, octets: int) -> None:
        """Remember what this turn puts under way for an inlet."""
        known = self.next.inlets.get(inlet)
        if known is None:
            self.next.inlets[inlet] = [count, octets]
        else:
            known[0] += count
            known[1] += octets

    def settling(self, now: float) -> Settlements:
        """Where settlements of this turn go."""
        if self.settle_operation is None:
            self.settle_operation = [bus.SETTLE, 0]
            self.settling_since = now
            self.turn.operations.append(self.settle_operation)
        return self.next.settlements

    def waits(self, now: float) -> bool:
        """Whether the turn brings nothing that has no time."""
        if self.hurries:
            return False
        if self.next.publishes:
            return self.rides(now)
        settles_only = self.settle_operation is not None and len(self.turn.operations) == 1
        return settles_only and now - self.settling_since < SETTLING_SECONDS

    def rides(self, now: float) -> bool:
        """Whether the turn brings mostly large contents that pass, and may wait for more of them: for a moment, or
        until the one before it is answered and there are not many in it.
        """
        plain = len(self.next.publishes) + (self.settle_operation is not None) + (self.windows is not None)
        load = self.next.load
        return (
            (bool(self.sent) or load.octets > STREAMING)
            and load.mostly_passes()
            and load.octets < RIDING
            and len(self.turn.operations) == plain
            and now - self.left_at < SETTLING_SECONDS
        )

    def open_window(self, consumer: int, octets: int) -> None:
        if self.windows is None:
            self.windows = {}
            self.turn.operations.append([bus.WINDOW, self.windows])
        self.windows[consumer] = self.windows.get(consumer, 0) + octets

    def tell(self, *operation: Any) -> None:
        """An operation without an answer."""
        if self.absent:
            return
        self.turn.operations.append(list(operation))

    def ask(self, operation: list[Any], reply: Reply) -> None:
        """An operation whose second element becomes the number of the request."""
        self.last_request += 1
        operation[1] = self.last_request
        self.requests[self.last_request] = (operation, reply)
        if operation[0] in (bus.CONSUME, bus.GET):
            self.holders.note(operation[2], operation[3], operation[GROUP_OF[operation[0]]])
        self.turn.operations.append(operation)

    def end_group(self, group: int) -> None:
        """A channel ended: what it has in hand is requeued, and the next life of the shard is not asked for more."""
        for number, (operation, _) in list(self.requests.items()):
            if operation[0] in GROUP_OF and operation[GROUP_OF[operation[0]]] == group:
                del self.requests[number]
        self.tell(bus.GONE, group)

    def close_turn(self, version: int, now: float) -> list[Any] | None:
        """The next multipart to send, if there is anything to say, at once, and anybody to say it to."""
        if self.greets:
            return self.hello(version)
        if self.closed:
            return self.closed.popleft()
        if not self.up or not self.turn or self.waits(now):
            return None
        self.left_at = now
        return self.leave(version)

    def cut(self, version: int) -> None:
        """What comes from now on is taken in after all that is in the turn already."""
        if self.up and self.turn:
            self.closed.append(self.leave(version))

    def leave(self, version: int) -> list[Any]:
        """The multipart of the turn that was written; the next one begins."""
        sent = self.next
        for publish in sent.publishes.values():
            publish.finish()
            assert publish.batch is not None
            publish.operation[2] = self.turn.place_batch(publish.batch, publish.first, publish.count)
            publish.operation[4] = publish.count
        if self.settle_operation is not None:
            self.settle_operation[1] = self.turn.place(sent.settlements.finish())
        for commit in sent.commits.values():
            if commit.settlements is not None:
                commit.operation[2] = self.turn.place(commit.settlements.finish())
        self.number += 1
        frames = self.turn.frames(self.number, version, self.heard)
        sent.number = self.number
        sent.operations = self.turn.operations
        sent.octets = sum(map(len, frames)) + self.turn.lent
        self.unheard_octets += sent.octets
        self.count_sent(sent.octets)
        self.sent.append(sent)
        self.begin_turn()
        return frames

    def count_sent(self, octets: int) -> None:
        if self.counts:
            self.gauges.pair_add_sent(self.acceptor, self.index, octets)

    def begin_counting(self) -> None:
        """In the gauges of the pair, which a predecessor of this acceptor has let go of, if there was one."""
        if not self.counts:
            self.counts = True
            self.gauges.pair_reset_sent(self.acceptor, self.index)
            self.count_sent(self.unheard_octets)

    def hello(self, version: int) -> list[Any]:
        self.greets = False
        frames = bus.Turn().frames(bus.HELLO, version)
        self.count_sent(len(frames[0]))
        return frames

    # What comes back

    def hear(self, operation: list[Any]) -> None:
        """What became of publishes and transactions."""
        if operation[0] == bus.REJECTED:
            self.rejected(*operation[1:])
        elif operation[0] == bus.REFUSED:
            self.refused(*operation[1:])
        else:
            self.dequeued.append((operation[1], operation[2]))

    def rejected(self, turn: int, index: int, queue: int, first: int, count: int) -> None:
        """A queue refused `count` rows from `first` of a publish: the spans that they belong to are told."""
        for sent in self.sent:
            if sent.number == turn:
                publish = sent.publishes[index]
                for start, span in publish.spans:
                    low, high = max(first, start), min(first + count, start + span.count)
                    if low < high and span.heeds(queue):
                        span.reject(low - start, high - low)
                publish.give_back(queue, first, count)
                return

    def refused(self, turn: int, index: int, queue: int) -> None:
        """A queue had no room for a transaction: the shard took in nothing of it."""
        for sent in self.sent:
            if sent.number == turn:
                sent.commits[index].transaction.refused_by(queue)

    def taken(self, number: int) -> None:
        """The shard reports that all turns up to `number` are safe."""
        self.heard = max(self.heard, number)
        served: dict[Inlet | QueueLane, None] = {}
        commits: list[Commit] = []
        while self.sent and self.sent[0].number <= number:
            sent = self.sent.popleft()
            self.unheard_octets -= sent.octets
            self.in_flight.load.leave(sent.load)
            for index, publish in sent.publishes.items():
                waits = False
                for _, span in publish.spans:
                    span.settle_one()
                    waits |= not span.done
                if waits:
                    self.withheld[sent.number, index] = publish.spans
            commits += sent.commits.values()
            for inlet, (count, octets) in sent.inlets.items():
                inlet.taken(count, octets)
                if inlet.waiting:
                    served[inlet] = None
        if not self.sent:
            self.suspect = None
        if self.counts and not self.sent:  # some of it may have been taken in before this acceptor began to count
            self.gauges.pair_reset_sent(self.acceptor, self.index)
        for commit in commits:
            commit.transaction.taken()
        for inlet in served:
            inlet.serve()
        if self.waiting:
            self.serve()

    def give_dequeued(self, inlet: Inlet, rows: list[int]) -> None:
        """Publishes have left a saturated queue for good: turn, index, first row and count of each part of them."""
        numbers = iter(rows)
        for turn, index, first, count in zip(numbers, numbers, numbers, numbers, strict=True):
            for start, span in self.withheld.get((turn, index), ()):
                low, high = max(first, start), min(first + count, start + span.count)
                if low < high:
                    span.leave(inlet, low - start, high - low)
        inlet.forget_given()

    def forget_given(self) -> None:
        """Nothing has to be kept of what is confirmed."""
        self.withheld = {at: spans for at, spans in self.withheld.items() if not all(span.done for _, span in spans)}

    def replied(self, request: int, result: Any, error: list[Any] | None, parts: Sequence[Any]) -> None:
        _, reply = self.requests.pop(request, (None, None))
        if reply is not None:
            reply(result, error, parts)

    # Lives of the shard

    def died(self) -> None:
        """The shard is gone. What was not safe is kept, and what of it its next life does not know is sent again."""
        self.up = self.greets = self.awaits = False
        self.closed.clear()

    def start(self) -> None:
        """A new life of the shard: it has to say what is safe before it is told anything."""
        self.absent = False
        self.greets = self.awaits = True
        if self.counts:
            self.gauges.pair_reset_sent(self.acceptor, self.index)

    def end(self) -> None:
        """The shard is gone for good, and so are the queues that this was for: nothing is waited for any more."""
        self.died()
        self.absent = True
        self.number += 1
        self.next.number = self.number
        self.sent.append(self.next)
        requests, self.requests = self.requests, {}
        self.begin_turn()
        self.taken(self.number)
        self.in_flight.forget()
        self.unheard_octets = 0
        for _, reply in requests.values():
            reply(None, GONE_FOR_GOOD, ())

    def unsafe(self) -> list[Sent]:
        """What has left and is not safe, and what has not left, in order."""
        return [*self.sent, self.next]

    def go_on(
        self, version: int, consumers: list[tuple[list[Any], Reply]], held: Settlements, living: set[int]
    ) -> None:
        """It has. The first turn attaches consumers and says what is in hand; the next one brings what is not safe.

        `held` are rows of all that the shard delivered and that is not settled for good, `living` the groups of the
        channels that are there.
        """
        unsafe, latest = self.unsafe(), self.latest
        for sent in self.sent:
            for publish in sent.publishes.values():
                publish.leave_again()
        self.sent.clear()
        self.in_flight.forget()
        self.unheard_octets = 0
        self.awaits = False
        self.up = True
        for number, (operation, _) in list(self.requests.items()):
            if operation[0] == bus.CONSUME and operation[AGE]:
                del self.requests[number]
        asked = [operation for operation, _ in self.requests.values()]
        self.begin_turn()
        for operation, reply in consumers:
            self.ask(operation, reply)
        holders = self.hold(held)
        paced = paced_among(unsafe)
        for (pace, inlet), count in paced.items():
            pace.come_again(inlet, count)
        self.closed.append(self.leave(version))
        for sent in unsafe:
            self.bring_again(sent)
        for (pace, inlet), count in paced.items():
            pace.came_again(inlet, count)
        self.turn.operations += asked  # a channel that has asked publishes no more before it is answered
        for group in {group for _, _, group, _ in holders} - living:
            self.tell(bus.GONE, group)
        if self.gave_up and not self.turn:
            self.tell(bus.WINDOW, {})  # what is not sent again counts as under way until a turn of its load is safe
        self.gave_up = False
        self.latest = latest
        if self.waiting:
            self.serve()

    def hold(self, held: Settlements) -> list[list[Any]]:
        """Say what is in hand, and what is given back: that is said again to every life until one has it safe. Who has,
        or had it.
        """
        holders = self.holders.named(held.consumers())
        if self.next.returned is None:
            self.next.returned = Settlements()
        self.next.returned.extend_returned(held)
        self.tell(bus.HOLD, holders, self.turn.place(held.finish()))
        return holders

    def bring_again(self, sent: Sent) -> None:
        """Put what an earlier turn brought into this one, but for what was to be requeued: HOLD has brought that."""
        if sent.settlements:
            self.settling(0.0).extend(sent.settlements, requeues=False)
        for index in sorted({*sent.publishes, *sent.commits}):
            if index in sent.commits:
                sent.commits[index].leave_again()
                self.mark(sent.commits[index])
            else:
                self.next.publishes[len(self.turn.operations)] = sent.publishes[index]
                self.turn.operations.append(sent.publishes[index].operation)
        for inlet, (count, octets) in sent.inlets.items():
            self.under_way(inlet, count, octets)
        self.next.load.join(sent.load)
        self.in_flight.load.join(sent.load)
