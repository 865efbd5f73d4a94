"""The rules. The checker reads the events of a run in order and reports each violation in one line.

Lost: at rest, every confirmed message has been acked by a reader on each queue that it was published to; or it was
dead-lettered and acked there; or a ring had enough later messages to drop it, or a last-value queue a later one with
the same key. A message that a reader rejected for good (`Done`) must have been acked where dead letters go, confirmed
or not.

Again: a message is not delivered once it was settled for good (`Done`), or after a rest that follows its publish, or on
a connection that has acked or rejected it. Queues that get dead letters from another shard are exempt, because these
arrive at least once. Also exempt, until the next rest, are messages in doubt when a fault came, or in doubt before it
was over, because deliveries do not wait for the disk: a message without a confirm, which its acceptor may have to send
again to a shard that does not know it; and a dead letter whose settlement is not safe, because its dead-lettering may
not have been safe either.

A repeated delivery must be `redelivered`. That is required only if a settlement of the queue, of that priority, was
safe between two faults: a shard's record of its first deliveries may die with it. So may its record of messages that
expired or were dropped, whose dead letters may be repeated unmarked.

Order: for each queue, reader, publisher, connection of the publisher and (if the queue orders by it) priority or key,
the numbers of messages that are not redelivered ascend. Dead letters arrive in the order in which one connection
rejected them, or in which they were published if their queue has no reader. A fault may bring back, out of order,
messages that a ring dropped or that expired, and give one of several readers messages that another had unacked.

Refused: a nacked message is not delivered. Whole: if any message of a transaction was settled for good, all of them
have been delivered, on whatever shards. Moved: a message that was confirmed before any fault, and that its last reader
moved to another queue in a transaction, has one successor. No other successor is settled for good. One that its shard
delivered before it died does not count if the transaction was that shard's alone, because deliveries do not wait for
the disk: the shard had it in memory only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tests.faults.events import (
    AtRest,
    Confirmed,
    Delivered,
    Done,
    Event,
    Fault,
    How,
    Message,
    Over,
    Refused,
    Sent,
    Settled,
    Wrong,
)
from tests.faults.plan import QueuePlan

Place = tuple[str, Message]
Line = tuple[str, int]
"""A queue, and a priority: 0 in one without."""
"""A message on one queue."""


class Checker:
    """Reads events; `problems` collects the violations."""

    def __init__(self, queues: dict[str, QueuePlan]) -> None:
        self.queues = queues
        self.problems: list[str] = []
        self.suspects: dict[str, Message] = {}
        """One message for each kind of problem; the report has its history."""
        self._sent: dict[Message, Sent] = {}
        self._highest: dict[str, int] = {}
        self._confirmed: set[Message] = set()
        self._refused: set[Message] = set()
        self._delivered: Counter[Place] = Counter()
        self._acked: set[Place] = set()
        self._done: set[Place] = set()
        self._rejected: dict[Place, list[tuple[str, int, int]]] = defaultdict(list)
        self._rejected_for_good: set[Place] = set()
        self._settled_on: set[tuple[Place, str, int]] = set()
        self._last_reader: dict[Place, tuple[str, int]] = {}
        self._last: dict[tuple[object, ...], int] = {}
        self._closed: set[Message] = set()
        self._open: set[Message] = set()
        """Messages sent since the last rest."""
        self._serial = 0
        self._unconfirmed: set[Message] = set()
        self._doubtful: set[Message] = set()
        self._dead_letters: set[Place] = set()
        """Dead letters delivered since the last rest whose settlement is not safe."""
        self._doubtful_dead: set[Place] = set()
        self._troubled = False
        self._dying: set[int] = set()
        self._unstored: set[Place] = set()
        """Messages without a confirm that a shard delivered before it died."""
        self._first: dict[Line, set[Place]] = defaultdict(set)
        """Deliveries since the last fault, until a settlement is safe."""
        self._unnoted: set[Place] = set()
        self._noted: set[Line] = set()

    def take(self, events: Iterable[Event]) -> None:
        """Continue with the events recorded since the last call."""
        for event in events:
            match event:
                case Sent():
                    self._send(event)
                case Confirmed():
                    self._confirmed.add(event.message)
                    self._unconfirmed.discard(event.message)
                case Refused():
                    self._refused.add(event.message)
                case Delivered():
                    self._deliver(event)
                case Settled():
                    self._settle(event)
                case Done():
                    self._finish(event)
                case AtRest():
                    self._rest()
                case Wrong():
                    self._wrong(event.what, event.message)
                case Fault():
                    self._troubled = True
                    self._dying |= event.shards
                    self._unstored |= {place for place in self._delivered if self._is_unstored(place)}
                    self._doubtful |= self._unconfirmed
                    self._doubtful_dead |= self._dead_letters
                    self._forget_order()
                    self._unnoted.update(*self._first.values())
                    self._first.clear()
                    self._noted.clear()
                case Over():
                    self._troubled = False
                    self._dying.clear()

    def _wrong(self, what: str, message: Message | None = None) -> None:
        self.problems.append(what)
        if message is not None:
            self.suspects.setdefault(what.replace(str(message), "").partition(": ")[2][:20], message)

    def _send(self, event: Sent) -> None:
        message = event.message
        self._sent[message] = event
        self._open.add(message)
        self._unconfirmed.add(message)
        if self._troubled:
            self._doubtful.add(message)
        for queue in event.queues:
            self._highest[queue] = max(message.number, self._highest.get(queue, 0))

    def _deliver(self, event: Delivered) -> None:
        queue, message = self.queues[event.queue], event.message
        place = queue.name, message
        again = self._delivered[place]
        self._delivered[place] += 1
        self._last_reader[place] = event.reader, event.incarnation
        self._unstored.discard(place)
        if self._is_unstored(place):
            self._unstored.add(place)
        if self._line(place) not in self._noted:
            self._first[self._line(place)].add(place)
        sent = self._sent.get(message)
        if sent is None or not self._may_come(queue, sent):
            self._wrong(f"{queue.name}: {message} was never published to it", message)
            return
        if queue.name not in sent.queues and not again:
            (self._doubtful_dead if self._troubled else self._dead_letters).add(place)
        doubtful = queue.repeats or message in self._doubtful or place in self._doubtful_dead
        if message in self._closed and not queue.repeats:
            self._wrong(f"{queue.name}: {message} came after the queue had been empty", message)
        elif place in self._done and not doubtful:
            self._wrong(f"{queue.name}: {message} came again, its settlement was safe", message)
        elif (place, event.reader, event.incarnation) in self._settled_on and not doubtful:
            self._wrong(f"{queue.name}: {message} came again on the connection that settled it", message)
        elif again and not event.redelivered and place not in self._unnoted and not self._died_unread(queue, sent):
            self._wrong(f"{queue.name}: {message} came again and does not say so", message)
        if not again and not event.redelivered:
            self._order(queue, event, sent)

    def _line(self, place: Place) -> Line:
        """Return the line of a queue that a message is in: a queue with priorities has one for each."""
        queue, message = place
        sent = self._sent.get(message)
        return queue, sent.priority if sent is not None and self.queues[queue].by_priority else 0

    def _is_unstored(self, place: Place) -> bool:
        """Whether a delivered message may have been in the memory of a dying shard only."""
        queue, message = place
        return message in self._unconfirmed and self.queues[queue].shard in self._dying

    def _died_unread(self, queue: QueuePlan, sent: Sent) -> bool:
        """Whether a delivery is a dead letter that no reader rejected."""
        return queue.name not in sent.queues and any(self.queues[name].dies_unread for name in sent.queues)

    def _may_come(self, queue: QueuePlan, sent: Sent) -> bool:
        if queue.name in sent.queues:
            return True
        sources = [self.queues[name] for name in sent.queues if self.queues[name].dead_to == queue.name]
        return any(source.dies_unread or self._rejected.get((source.name, sent.message)) for source in sources)

    def _order(self, queue: QueuePlan, event: Delivered, sent: Sent) -> None:
        """Check that a message is first delivered after its predecessors."""
        message = event.message
        if queue.name in sent.queues:
            line = queue.key_of(message.number) if queue.by_key else sent.priority if queue.by_priority else 0
            self._ascend((queue.name, event.reader, message.publisher, sent.incarnation, line), message.number, message)
            return
        for source in (name for name in sent.queues if self.queues[name].dead_to == queue.name):
            rejections = self._rejected.get((source, message), [])
            if len(rejections) == 1:
                reader, incarnation, serial = rejections[0]
                self._ascend((queue.name, source, reader, incarnation), serial, message)
            elif self.queues[source].unread:
                self._ascend((queue.name, source, message.publisher, sent.incarnation), message.number, message)

    def _forget_order(self) -> None:
        """Allow, out of order, messages that left a queue by themselves or that another reader had unacked."""
        queues = {name for name, queue in self.queues.items() if queue.falls_out or queue.shared}
        for key in [key for key in self._last if key[0] in queues]:
            del self._last[key]

    def _ascend(self, key: tuple[object, ...], number: int, message: Message) -> None:
        last = self._last.get(key, -1)
        if number <= last:
            self._wrong(f"{key[0]}: {message} out of order ({number} after {last} of {key[1:]})", message)
        self._last[key] = max(number, last)

    def _settle(self, event: Settled) -> None:
        place = event.queue, event.message
        if event.how is How.REQUEUE:
            return
        if event.how is How.ACK:
            self._acked.add(place)
        else:
            self._serial += 1
            self._rejected[place].append((event.reader, event.incarnation, self._serial))
        self._settled_on.add((place, event.reader, event.incarnation))

    def _finish(self, event: Done) -> None:
        place = event.queue, event.message
        self._noted.add(self._line(place))
        self._first.pop(self._line(place), None)
        if event.how is How.REJECT and event.message not in self._doubtful:
            self._rejected_for_good.add(place)
        self._done.add(place)
        self._dead_letters.discard(place)

    # At rest

    def _rest(self) -> None:
        for message in sorted(self._open):
            sent = self._sent[message]
            for name in sent.queues:
                if message in self._confirmed and not self._accounted(self.queues[name], message):
                    self._wrong(f"{name}: {message} was confirmed and is lost", message)
                elif (name, message) in self._rejected_for_good and not self._buried(self.queues[name], message):
                    self._wrong(f"{name}: {message} was rejected and is no dead letter", message)
                if message in self._refused and self._delivered[name, message]:
                    self._wrong(f"{name}: {message} was refused and came all the same", message)
        self._whole()
        self._moved_once()
        self._unstored.clear()
        self._closed |= self._open
        self._open.clear()
        self._doubtful.clear()
        self._dead_letters.clear()
        self._doubtful_dead.clear()

    def _accounted(self, queue: QueuePlan, message: Message) -> bool:
        if (queue.name, message) in self._acked or self._buried(queue, message):
            return True
        return queue.keeps is not None and self._highest[queue.name] - message.number >= queue.keeps

    def _buried(self, queue: QueuePlan, message: Message) -> bool:
        """Whether a message was acked where dead letters go or, if they go nowhere, rejected."""
        if queue.dead_to is None:
            return (queue.name, message) in self._rejected
        return (queue.dead_to, message) in self._acked

    def _whole(self) -> None:
        commits: dict[str, list[Place]] = defaultdict(list)
        for sent in self._sent_since():
            if sent.commit:
                commits[sent.commit] += [(name, sent.message) for name in sent.queues]
        for commit, places in commits.items():
            missing = [place for place in places if not self._delivered[place]]
            if missing and not self._done.isdisjoint(places):
                queue, message = missing[0]
                self._wrong(f"{queue}: {message} is missing of {commit}, of which something came", message)

    def _moved_once(self) -> None:
        """Check the successors of moved messages that were sent since the last rest."""
        tried: dict[Place, list[Sent]] = defaultdict(list)
        for sent in self._sent_since():
            if sent.origin is not None and sent.origin in self._confirmed - self._doubtful:
                tried[self._origin_of(sent)].append(sent)
        for place, successors in tried.items():
            reader, incarnation = self._last_reader[place]
            due = [s.message for s in successors if (s.message.publisher, s.incarnation) == (reader, incarnation)]
            came = [s.message for s in successors if any(self._delivered[name, s.message] for name in s.queues)]
            kept = [s.message for s in successors if any(self._is_kept(place[0], name, s) for name in s.queues)]
            if not set(kept) <= set(due) <= set(came):
                names = ", ".join(map(str, kept or came)) or "nothing"
                self._wrong(
                    f"{place[0]}: {place[1]} has become {names}, last had by {reader} ({incarnation})", place[1]
                )

    def _is_kept(self, origin: str, target: str, successor: Sent) -> bool:
        """Whether a successor was settled for good in a queue, delivered by a shard that had stored it."""
        place = target, successor.message
        alone = self.queues[origin].shard == self.queues[target].shard
        return place in self._done and not (alone and place in self._unstored)

    def _origin_of(self, sent: Sent) -> Place:
        assert sent.origin is not None
        (queue,) = self._sent[sent.origin].queues
        return queue, sent.origin

    def _sent_since(self) -> Iterator[Sent]:
        return (self._sent[message] for message in self._open)
