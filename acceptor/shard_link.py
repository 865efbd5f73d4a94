"""The acceptor's side of one shard: the turn being written, and what of earlier ones is not safe there.

Publishes of a turn that go to the same queues leave as one batch where that keeps their order: many small writers
then cost what one big writer costs.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

from acceptor.confirms import Span
from acceptor.inlet import Inlet, Session, serve
from acceptor.sent import OWN_PARTS, Commit, Publish, Sent
from acceptor.unacked_cy import Settlements
from penstock import bus
from penstock.batch_cy import Batch, BatchBuilder
from penstock.gauges import Gauges

# Where requests that leave something with their channel's group name it.
GROUP_OF = {bus.CONSUME: 7, bus.GET: 5, bus.LIMIT: 2, bus.RESERVE: 2}

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
        self.in_flight = 0
        self.in_flight_octets = 0
        self.sent: deque[Sent] = deque()
        self.waiting: OrderedDict[Session, None] = OrderedDict()
        self.requests: dict[int, tuple[list[Any], Reply]] = {}
        self.last_request = 0
        self.begin_turn()

    def __str__(self) -> str:
        """What an operator or a client is told: the shard says why it is saturated."""
        gate = self.gauges.queue_read(self.index)
        return f"shard {self.index}: {gate.name}" if gate and gate.name else f"shard {self.index}"

    def begin_turn(self) -> None:
        self.turn = bus.Turn(self.index)
        self.settlements = Settlements()
        self.settle_operation: list[Any] | None = None
        self.windows: dict[int, int] | None = None
        self.publishes: dict[int, Publish] = {}
        self.latest: dict[int | str, Publish] = {}
        self.inlets: dict[Inlet, list[int]] = {}
        self.commits: dict[int, Commit] = {}
        self.count = 0
        self.octets = 0

    # As a gate

    def is_saturated(self) -> bool:
        return self.gauges.saturated(self.index)

    def room(self) -> tuple[int, int]:
        count = self.max_count - self.in_flight - self.count
        octets = self.max_octets - self.in_flight_octets - self.octets
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
        self.count += count
        self.octets += octets
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
        self.publishes[len(self.turn.operations)] = publish
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
            self.publishes[len(self.turn.operations)] = publish
            self.turn.operations.append(publish.operation)
        self.count += commit.count
        self.octets += commit.octets

    def mark(self, commit: Commit) -> None:
        self.commits[len(self.turn.operations)] = commit
        self.turn.operations.append(commit.operation)

    def under_way(self, inlet: Inlet, count: int, octets: int) -> None:
        """Remember what this turn puts under way for an inlet."""
        known = self.inlets.get(inlet)
        if known is None:
            self.inlets[inlet] = [count, octets]
        else:
            known[0] += count
            known[1] += octets

    def settling(self) -> Settlements:
        """Where settlements of this turn go."""
        if self.settle_operation is None:
            self.settle_operation = [bus.SETTLE, 0]
            self.turn.operations.append(self.settle_operation)
        return self.settlements

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
        self.turn.operations.append(operation)

    def end_group(self, group: int) -> None:
        """A channel ended: what it has in hand is requeued, and the next life of the shard is not asked for more."""
        for number, (operation, _) in list(self.requests.items()):
            if operation[0] in GROUP_OF and operation[GROUP_OF[operation[0]]] == group:
                del self.requests[number]
        self.tell(bus.GONE, group)

    def close_turn(self, version: int) -> list[Any] | None:
        """The multipart to send, if there is anything to say and anybody to say it to."""
        if self.greets:
            return self.hello(version)
        if not self.up or not self.turn:
            return None
        for publish in self.publishes.values():
            publish.finish()
            assert publish.batch is not None
            publish.operation[2] = self.turn.place_batch(publish.batch, publish.first, publish.count)
            publish.operation[4] = publish.count
        if self.settle_operation is not None:
            self.settle_operation[1] = self.turn.place(self.settlements.finish())
        for commit in self.commits.values():
            if commit.settlements is not None:
                commit.operation[2] = self.turn.place(commit.settlements.finish())
        self.number += 1
        frames = self.turn.frames(self.number, version, self.heard)
        octets = sum(map(len, frames)) + self.turn.lent
        self.in_flight += self.count
        self.in_flight_octets += octets
        self.gauges.pair_add_sent(self.acceptor, self.index, octets)
        self.sent.append(Sent(self.number, self.count, octets, self.publishes, self.inlets, self.commits))
        self.begin_turn()
        return frames

    def hello(self, version: int) -> list[Any]:
        self.greets = False
        frames = bus.Turn().frames(bus.HELLO, version)
        self.gauges.pair_add_sent(self.acceptor, self.index, len(frames[0]))
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

    def died(self) -> None:
        """The shard is gone. What was not safe is kept, and what of it its next life does not know is sent again."""
        self.up = self.greets = self.awaits = False

    def start(self) -> None:
        """A new life of the shard: it has to say what is safe before it is told anything."""
        self.greets = self.awaits = True
        self.gauges.pair_reset_sent(self.acceptor, self.index)

    def go_on(self, consumers: list[tuple[list[Any], Reply]]) -> None:
        """It has: attach the consumers, ask again what has no answer, send again what is not safe.

        Settlements that wait refer to deliveries of the dead shard and are void.
        """
        publishes = [publish for sent in self.sent for publish in sent.publishes.values()]
        commits = [commit for sent in self.sent for commit in sent.commits.values()]
        commits += self.commits.values()
        under_way = [sent.inlets for sent in self.sent]
        count = self.count + sum(sent.count for sent in self.sent)
        octets = self.octets + sum(sent.octets for sent in self.sent)
        self.sent.clear()
        publishes += self.publishes.values()
        under_way.append(self.inlets)
        latest, asked = self.latest, [operation for operation, _ in self.requests.values()]
        self.begin_turn()
        for operation, reply in consumers:
            self.ask(operation, reply)
        self.turn.operations += asked
        for publish in publishes:
            if publish.commit is not None and publish is publish.commit.publishes[0]:
                publish.commit.forget_settlements()
                self.mark(publish.commit)
            self.publishes[len(self.turn.operations)] = publish
            self.turn.operations.append(publish.operation)
        for inlets in under_way:
            for inlet, (count, size) in inlets.items():
                self.under_way(inlet, count, size)
        self.latest, self.count, self.octets = latest, count, octets
        self.in_flight = self.in_flight_octets = 0
        self.awaits = False
        self.up = True
        for commit in commits:
            if not commit.publishes:
                commit.transaction.taken()
        if self.waiting:
            self.serve()
