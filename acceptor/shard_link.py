"""The acceptor's side of one shard: the turn being written, and what of earlier ones is not safe there.

Publishes of a turn that go to the same queues leave as one batch where that keeps their order: many small writers
then cost what one big writer costs.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

from acceptor.confirms import Span
from acceptor.holders import Holders
from acceptor.inlet import Inlet, Session, serve
from acceptor.sent import OWN_PARTS, Commit, Publish, Sent
from acceptor.unacked_cy import Settlements
from penstock import bus
from penstock.batch_cy import Batch, BatchBuilder
from penstock.gauges import Gauges

# Where requests that leave something with their channel's group name it.
GROUP_OF = {bus.CONSUME: 7, bus.GET: 5, bus.LIMIT: 2, bus.RESERVE: 2}
# Where CONSUME has the consumer's age.
AGE = 11

Reply = Callable[[Any, list[Any] | None, Sequence[Any]], None]


class ShardLink:
    """One shard as an acceptor sees it. It is a gate as well: all that is in flight to the shard is bounded.

    A new life of the shard is first sent a hello (`greets` until then, `awaits` until that is answered); then it is
    `up`. Before that operations wait in the turn. `heard` is the last report, of any life.
    """

    def __init__(self, index: int, gauges: Gauges, acceptor: int, max_count: int, max_octets: int) -> None:
        self.index = index
        self.gauges = gauges
        self.acceptor = acceptor
        self.max_count = max_count
        self.max_octets = max_octets
        self.up = False
        self.greets = False
        self.awaits = False
        self.number = 0
        self.heard = 0
        self.counts = False
        self.in_flight = 0
        self.in_flight_octets = 0
        self.sent: deque[Sent] = deque()
        self.waiting: OrderedDict[Session, None] = OrderedDict()
        self.opening: list[Any] | None = None
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
        self.windows: dict[int, int] | None = None
        self.latest: dict[int | str, Publish] = {}

    # As a gate

    def is_saturated(self) -> bool:
        return self.gauges.saturated(self.index)

    def room(self) -> tuple[int, int]:
        count = self.max_count - self.in_flight - self.next.count
        octets = self.max_octets - self.in_flight_octets - self.next.octets
        if not self.up or count <= 0 or octets <= 0 or self.gauges.saturated(self.index):
            return 0, 0
        return count, octets

    def admits(self, count: int, octets: int) -> bool:
        """Whether so much may be sent at once. More than may ever be in flight may once nothing is."""
        room, space = self.room()
        return (count <= room and octets <= space) or (room == self.max_count and space > 0)

    def serve(self) -> None:
        serve(self)

    # What goes into the turn

    def publish(self, queues: tuple[int | str, ...], batch: Batch, first: int, count: int, span: Span | None) -> None:
        """Publish `count` messages from row `first` of a batch to queues of this shard."""
        rows, contents = batch.slices(first, count)
        octets = len(rows) + len(contents)
        self.next.count += count
        self.next.octets += octets
        publish = None
        if octets < OWN_PARTS:
            publish = self.latest.get(queues[0])
            if publish is not None and not self.may_join(publish, queues):
                publish = None
        if publish is None:
            publish = self.open_publish(queues)
        if octets >= OWN_PARTS:
            publish.batch, publish.first, publish.count = batch, first, count
            if span is not None:
                publish.spans.append((0, span))
            return
        if publish.builder is None:
            publish.builder = BatchBuilder()
        if span is not None:
            publish.spans.append((publish.count, span))
        publish.builder.extend(batch, first, count)
        publish.count += count

    def may_join(self, publish: Publish, queues: tuple[int | str, ...]) -> bool:
        """Whether more may join an earlier publish without overtaking another one to any of its queues."""
        return (
            publish.batch is None
            and publish.queues == queues
            and all(self.latest.get(queue) is publish for queue in queues)
            and publish.builder is not None
            and publish.builder.used < 16 * OWN_PARTS
        )

    def open_publish(self, queues: tuple[int | str, ...]) -> Publish:
        publish = Publish(queues)
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
        self.next.count += commit.count
        self.next.octets += commit.octets

    def mark(self, commit: Commit) -> None:
        self.next.commits[len(self.turn.operations)] = commit
        self.turn.operations.append(commit.operation)

    def under_way(self, inlet: Inlet, count: int, octets: int) -> None:
        """Remember what this turn puts under way for an inlet."""
        known = self.next.inlets.get(inlet)
        if known is None:
            self.next.inlets[inlet] = [count, octets]
        else:
            known[0] += count
            known[1] += octets

    def settling(self) -> Settlements:
        """Where settlements of this turn go."""
        if self.settle_operation is None:
            self.settle_operation = [bus.SETTLE, 0]
            self.turn.operations.append(self.settle_operation)
        return self.next.settlements

    def open_window(self, consumer: int, octets: int) -> None:
        if self.windows is None:
            self.windows = {}
            self.turn.operations.append([bus.WINDOW, self.windows])
        self.windows[consumer] = self.windows.get(consumer, 0) + octets

    def tell(self, *operation: Any) -> None:
        """An operation without an answer."""
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

    def close_turn(self, version: int) -> list[Any] | None:
        """The next multipart to send, if there is anything to say and anybody to say it to."""
        if self.greets:
            return self.hello(version)
        if self.opening is not None:
            opening, self.opening = self.opening, None
            return opening
        if not self.up or not self.turn:
            return None
        return self.leave(version)

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
        sent.octets = sum(map(len, frames)) + self.turn.lent
        self.in_flight += sent.count
        self.in_flight_octets += sent.octets
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
            self.count_sent(self.in_flight_octets)

    def hello(self, version: int) -> list[Any]:
        self.greets = False
        frames = bus.Turn().frames(bus.HELLO, version)
        self.count_sent(len(frames[0]))
        return frames

    # What comes back

    def rejected(self, turn: int, index: int, first: int, count: int) -> None:
        """A queue refused `count` rows from `first` of a publish: the spans that they belong to are told."""
        for sent in self.sent:
            if sent.number == turn:
                publish = sent.publishes[index]
                for start, span in publish.spans:
                    low, high = max(first, start), min(first + count, start + span.count)
                    if low < high:
                        span.reject(low - start, high - low)
                return

    def refused(self, turn: int, index: int, queue: int) -> None:
        """A queue had no room for a transaction: the shard took in nothing of it."""
        for sent in self.sent:
            if sent.number == turn:
                sent.commits[index].transaction.refused_by(queue)

    def taken(self, number: int) -> None:
        """The shard reports that all turns up to `number` are safe."""
        self.heard = max(self.heard, number)
        served: dict[Inlet, None] = {}
        commits: list[Commit] = []
        while self.sent and self.sent[0].number <= number:
            sent = self.sent.popleft()
            self.in_flight -= sent.count
            self.in_flight_octets -= sent.octets
            for publish in sent.publishes.values():
                for _, span in publish.spans:
                    span.settle_one()
            commits += sent.commits.values()
            for inlet, (count, octets) in sent.inlets.items():
                inlet.taken(count, octets)
                served[inlet] = None
        for commit in commits:
            commit.transaction.taken()
        for inlet in served:
            if inlet.waiting:
                inlet.serve()
        if self.waiting:
            self.serve()

    def replied(self, request: int, result: Any, error: list[Any] | None, parts: Sequence[Any]) -> None:
        _, reply = self.requests.pop(request, (None, None))
        if reply is not None:
            reply(result, error, parts)

    # Lives of the shard

    def died(self) -> None:
        """The shard is gone. What was not safe is kept, and what of it its next life does not know is sent again."""
        self.up = self.greets = self.awaits = False
        self.opening = None

    def start(self) -> None:
        """A new life of the shard: it has to say what is safe before it is told anything."""
        self.greets = self.awaits = True
        if self.counts:
            self.gauges.pair_reset_sent(self.acceptor, self.index)

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
        self.in_flight = self.in_flight_octets = 0
        self.awaits = False
        self.up = True
        holders = self.holders.named(held.consumers())
        for number, (operation, _) in list(self.requests.items()):
            if operation[0] == bus.CONSUME and operation[AGE]:
                del self.requests[number]
        asked = [operation for operation, _ in self.requests.values()]
        self.begin_turn()
        for operation, reply in consumers:
            self.ask(operation, reply)
        self.tell(bus.HOLD, holders, self.turn.place(held.finish()))
        self.opening = self.leave(version)
        self.turn.operations += asked
        for sent in unsafe:
            self.bring_again(sent)
        for group in {group for _, _, group, _ in holders} - living:
            self.tell(bus.GONE, group)
        self.latest = latest
        if self.waiting:
            self.serve()

    def bring_again(self, sent: Sent) -> None:
        """Put what an earlier turn brought into this one, but for what was to be requeued: HOLD has brought that."""
        if sent.settlements:
            self.settling().extend(sent.settlements, requeues=False)
        for index in sorted({*sent.publishes, *sent.commits}):
            if index in sent.commits:
                sent.commits[index].leave_again()
                self.mark(sent.commits[index])
            else:
                self.next.publishes[len(self.turn.operations)] = sent.publishes[index]
                self.turn.operations.append(sent.publishes[index].operation)
        for inlet, (count, octets) in sent.inlets.items():
            self.under_way(inlet, count, octets)
        self.next.count += sent.count
        self.next.octets += sent.octets
