"""One channel: its publishes, consumers and running method (AMQP 0-9-1, 3.1.2).

Methods and publishes are processed in order. A channel that cannot go on parks them in its inbox: behind a method that
awaits an answer (`running`), or behind publishes that wait for room. Settlements, and methods that a held producer must
be able to send, overtake parked publishes: two clients that feed each other's full queues go on acking. The stages of
its life are in acceptor/clients/channel_stage.py.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from acceptor.clients.asking import AtGates, Until
from acceptor.clients.channel_stage import DETACHED, LIVE, OPEN, ChannelEvent
from acceptor.clients.channel_state import ChannelState
from acceptor.clients.connection_state import ConnectionState
from acceptor.clients.inbox import EMPTY, Inbox
from acceptor.clients.parked import OVERTAKES, QUEUE_METHODS, ParkedMethod, ParkedRun, ParkedSettlements, means
from acceptor.clients.redeclaring import repeats
from acceptor.clients.running import Running
from acceptor.gates.fair import BY_CONNECTION, BY_KEY, BY_USER
from acceptor.gates.gate import UNLIMITED, Gate
from acceptor.gates.rights import Undecided
from acceptor.links.contained import contained
from acceptor.links.unacked_cy import UnackedTags
from acceptor.publishing.overtaking import asked
from acceptor.routing.routing import Unfinished
from penstock import bus
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.scan_cy import Method, PublishRun, SettleRun
from penstock.amqp.spec import BASIC_CLASS, BY_NAME, METHODS, MethodSpec
from penstock.batch.settlement_rows import SETTLE_REQUEUE
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.amqp.services import Services
    from acceptor.gates.confirms import Withholding
    from acceptor.gates.permissions import Access
    from acceptor.transactions.transaction import Transaction

log = get_logger()


class Channel(ChannelState):
    """One channel: what it does with what arrives, and with room.

    `last_queue` is the queue that it declared last: a method that names no queue means that one.
    """

    transaction: Transaction | None

    def __init__(self, connection: ConnectionState, number: int, services: Services) -> None:
        super().__init__(
            connection, number, asked(services.acceptor.topology, connection.access, connection.client.properties)
        )
        self.services = services
        self.last_queue = ""

    # In

    def take_method(self, frame: Method, method: MethodSpec, arguments: dict[str, Any]) -> None:
        """A method arrived."""
        if self.stage is not OPEN:
            if method.name == "channel_close_ok":
                self.happened(ChannelEvent.CLOSE_OK)
                self.connection.forget_channel(self)
            elif method.name == "channel_close":
                self.answer_close()
            return
        first = self.running is None and not self.inbox
        if first or self.may_overtake(method, arguments, len(self.inbox)):
            self.handle(method, arguments)
        else:
            self.park(ParkedMethod(method, frame.payload, arguments["queue"] if method.name in QUEUE_METHODS else ""))

    def take_publishes(self, run: PublishRun) -> None:
        """Publishes arrived."""
        if self.stage is OPEN:
            self.services.publishing.publish(self, run)

    def take_settlements(self, run: SettleRun) -> None:
        """Acks, nacks and rejects arrived."""
        if self.stage is not OPEN:
            return
        if self.transaction is not None:
            self.take_in_transaction(run)
        else:
            before, whole = len(self.unacked), self.unacked.whole
            unknown = self.unacked.settle(run.rows, run.count, self.services.settling.places(self.shards))
            self.services.settling.settled(self, before - len(self.unacked), whole)
            self.settled(run, unknown)

    def take_in_transaction(self, run: SettleRun) -> None:
        """Add settlements to the open transaction; behind a running commit or parked items they are parked first."""
        if self.running is not None or self.inbox:
            self.park(ParkedSettlements(run))
            return
        assert self.transaction is not None
        self.settled(run, self.transaction.settle(self, run))

    def settled(self, run: SettleRun, unknown: int) -> None:
        """Settlements were applied. An `unknown` delivery tag (-1: none) at which that stopped is a client error."""
        self.shared_prefetch.serve()
        if unknown >= 0:
            self.fail(amqp_error(406, f"unknown delivery tag {unknown}", METHODS[BASIC_CLASS, run.method_of(unknown)]))

    def take_oversize(self, size: int) -> None:
        """A message arrived that is larger than `amqp.max_message_size`: close the channel."""
        if self.stage is OPEN:
            text = (
                f"message size {size} is larger than configured max size {self.acceptor.settings.amqp.max_message_size}"
            )
            self.fail(amqp_error(406, text, BY_NAME["basic_publish"]))

    def rights_change(self, access: Access) -> None:
        """The client has other rights from now on: a consumer of a queue that it may not read any more ends the
        channel.
        """
        self.access = access
        try:
            for consumer in self.consumers.values():
                access.check("read", "queue", consumer.queue.name)
        except AMQPError as error:
            self.fail(error)

    # Methods

    def handle(self, method: MethodSpec, arguments: dict[str, Any]) -> None:
        """Run the handler of a method. If it needs an answer from elsewhere, `resume` continues it."""
        handler = self.services.handlers.get(method.name)
        overtaken, self.method = self.method, method
        try:
            if handler is None:
                raise amqp_error(503, "unimplemented method", method)
            running = handler(self, arguments)
            if running is not None:
                self.running = Running(running, partial(handler, self, arguments))
                self.step(None)
        except AMQPError as error:
            self.fail(error)
        if self.running is None:
            self.method = overtaken

    @contained
    def resume(self, answer: Any) -> None:
        """Give the running method its answer; when it is done, go on with the inbox."""
        if self.running is not None:
            self.step(answer)
            self.pump(UNLIMITED)

    def step(self, answer: Any) -> None:
        """Run the handler up to its next request, or its end."""
        assert self.running is not None
        try:
            request = self.running.handler.send(answer)
        except StopIteration:
            self.running = None
        except Undecided as undecided:
            self.running.begin_again()
            undecided.start(self.resume)
        except AMQPError as error:
            self.running = None
            self.fail(error)
        else:
            if isinstance(request, AtGates):
                self.running.at_gates = True
                for gate in request.gates:
                    self.wait_at(gate)
                    gate.waiting.move_to_end(self, last=False)
            elif isinstance(request, Until):
                request.start(self.resume)
            else:
                self.services.requests.ask(request, self.resume)

    def pump(self, most: int) -> None:
        """Process the inbox until something has to wait, publishing at most `most` messages."""
        if self.overtaking:
            self.services.overtaking.pump(self, most)
        else:
            self.pump_in_order(most)
        if self.gates:
            self.overtake()
        self.release_if_free()

    def pump_in_order(self, most: int) -> None:
        """Process the inbox as `pump` does, nothing of it out of order."""
        while self.inbox and self.running is None and not self.gates and self.stage in LIVE:
            item = self.inbox[0]
            if isinstance(item, ParkedMethod):
                self.unpark()
                self.handle(item.method, item.arguments)
                continue
            most = self.forward(item, most)
            if item.count:
                break
            if self.inbox and self.inbox[0] is item:
                self.unpark()

    def forward(self, run: ParkedRun, most: int) -> int:
        """Publish messages of a run as far as there is room, at most `most`. Return how many more may follow."""
        sent = self.services.publishing.forward(self, run, most)
        if sent:
            self.services.holding.escalations.progressed(self)
        # With its share used up the channel is a newcomer. Messages that need no room may have gone beyond the share.
        return most if most == UNLIMITED else max(most - sent, 0) or UNLIMITED

    def may_overtake(self, method: MethodSpec, arguments: dict[str, Any], end: int) -> bool:
        """Whether a method may go before the first `end` items of the inbox."""
        if self.running is not None:
            return self.running.at_gates and method.name == "channel_close"  # the commit that waits is given up
        if method not in OVERTAKES:
            return not self.inbox.methods and self.repeats(method, arguments)
        if not self.services.orphans.may_overtake(self, method):
            return False
        if not self.inbox.methods:
            return True
        return not any(
            isinstance(item, ParkedMethod) and means(method, arguments, item) for item in islice(self.inbox, end)
        )

    def repeats(self, method: MethodSpec, arguments: dict[str, Any]) -> bool:
        """Whether a method declares what exists, and counts no messages that are parked here: nobody can tell that it
        has not waited for them.
        """
        found = repeats(self, method, arguments)
        return found if isinstance(found, bool) else self.services.overtaking.spares(self, found.queue_id)

    def overtake(self) -> None:
        """Handle parked methods that may overtake publishes, and were parked only behind a running method."""
        at = 0
        while self.inbox.methods and (self.running is None or self.running.at_gates) and at < len(self.inbox):
            item = self.inbox[at]
            if isinstance(item, ParkedMethod) and self.may_overtake(item.method, item.arguments, at):
                self.unpark(at)
                self.handle(item.method, item.arguments)
            else:
                at += 1

    @contained
    def admit(self, most: int) -> None:
        """A gate admits the channel: publish at most `most` messages."""
        at_gates = self.runs_at_gates()
        if self.overtaking and not at_gates:
            self.leave_opened()
            self.services.holding.holds.recheck_cause_later(self)
        else:
            self.leave_gates()
        if at_gates and self.running is not None:
            self.running.at_gates = False
            self.step(None)
            most = UNLIMITED
        self.pump(most)

    def pass_lane(self, most: int) -> int:
        """Publish messages parked for priority lanes, at most `most`. Return how many were sent."""
        return self.services.publishing.pass_lane(self, most) if self.stage in LIVE else 0

    def head_has_gone(self) -> None:
        """The first run of the inbox has been published by a lane: go on with the next item."""
        if self.inbox and isinstance(self.inbox[0], ParkedRun):
            self.reconsider()
        else:
            self.leave_gates()
            self.pump(UNLIMITED)

    def share(self, by: str) -> tuple[Hashable, int]:
        """Return the key of the share in which the channel takes its turns at a gate, and its user's weight."""
        weight = self.services.weights.of(self.access)
        if by == BY_CONNECTION:
            return self.connection, weight
        if by == BY_USER:
            return self.access.user, weight
        if by == BY_KEY:
            return (self.route.exchange, self.route.key) if self.route is not None else self, weight
        return self, weight

    @contained
    def reconsider(self) -> None:
        """Routes have changed: leave gates that the first parked run need not pass."""
        if self.runs_at_gates() or (self.overtaking and self.gates):
            self.leave_gates()
            self.admit(UNLIMITED)
            return
        item = self.inbox[0] if self.inbox else None
        if isinstance(item, ParkedRun) and self.gates:
            try:
                route = self.services.routes.find(self, item.address, item.further)
                gates = route.gates_for(self.connection.id)
            except (AMQPError, Unfinished):
                gates = ()
            if any(gate not in gates for gate in self.gates):
                self.admit(UNLIMITED)

    def park(self, item: ParkedRun | ParkedMethod) -> None:
        """Append an item to the inbox and account for its bytes. A run may go to disk."""
        if isinstance(item, ParkedRun):
            item.since = item.since or self.acceptor.now
            self.services.holding.books.episodes.parked(self, item.count, item.nbytes)
            if any(gate.is_saturated() for gate in self.gates):
                item.batch = bus.taken_home(item.batch)  # the arena is for messages that need not wait
            if self.acceptor.spool is not None:
                item = self.services.holding.parking.spooled(self, item, self.acceptor.spool)
        if self.inbox is EMPTY:
            self.inbox = Inbox()
        self.inbox.put(item)
        self.services.holding.parking.account(self, item.nbytes)

    def unpark(self, at: int = 0) -> None:
        """Remove an item from the inbox and account for its bytes."""
        self.services.holding.parking.account(self, -self.inbox.pop_at(at).nbytes)

    # Gates

    def wait_at(self, gate: Gate) -> None:
        """Wait at a gate. A saturated gate holds the channel at once."""
        gate.waiting[self] = None
        if gate not in self.gates:
            self.gates.append(gate)
            if self.hold is not None and gate is not self.held_by:
                self.services.holding.holds.recheck_cause_later(self)
        if gate.opens_with_time:
            self.services.gates.waits_for_time(gate, self)
        if gate.is_saturated():
            self.held_at(gate)

    def held_at(self, gate: Gate) -> None:
        """A gate at which the channel waits is saturated: hold the channel and notify its client."""
        self.services.holding.holds.hold(self, gate)

    def unwarn(self) -> None:
        """Retract the early notice of a stop. The client of a held channel is notified only when that is released."""
        queue_gate, self.notices.early = self.notices.early, None
        if queue_gate is not None:
            del queue_gate.warned[self]
            if self.hold is None:
                self.services.holding.notifier.retract(self)

    def recheck_warning(self) -> None:
        """Retract the early notice if it does not concern the channel: routes or means may have changed."""
        if self.notices.early is not None and not self.services.early.concerns(self, self.notices.early):
            self.unwarn()

    def leave_gates(self) -> None:
        """Stop waiting at every gate."""
        for gate in list(self.gates):
            self.leave_gate(gate)

    def leave_gate(self, gate: Gate) -> None:
        """Stop waiting at this gate."""
        self.gates.remove(gate)
        # A pool and its manifolds, which count a message several times, are separate gates with one line.
        if all(other.waiting is not gate.waiting for other in self.gates):
            gate.waiting.pop(self, None)
        self.services.gates.metered.leaves(gate, self, self.acceptor.now)

    def leave_opened(self) -> None:
        """Leave the gates that have admitted the channel, and stay at the others."""
        gates, self.gates = self.gates, []
        for gate in gates:
            if self in gate.waiting:
                self.gates.append(gate)
            else:
                self.services.gates.metered.leaves(gate, self, self.acceptor.now)

    def release_if_free(self) -> None:
        """Release the channel if nothing of it waits, neither publishes nor confirms."""
        waits = self.inbox or self.gates or self.withheld or self.refusing is not None
        if self.hold is not None and not waits:
            self.services.holding.holds.release(self)

    def withholds(self, queue_gate: Withholding) -> bool:
        """Whether confirms are withheld from the channel while this queue is saturated."""
        return self.refusing is not queue_gate and self.services.holding.holds.terms_at(self, queue_gate).means.confirms

    def withheld_at(self, gate: Gate) -> None:
        """A span's confirms are withheld at a gate: hold the channel, though nothing of it is parked."""
        self.withheld += 1
        if self.stage is OPEN:
            self.held_at(gate)

    def no_longer_withheld(self) -> None:
        """The confirms of a withheld span are complete."""
        self.withheld -= 1
        self.release_if_free()
        self.services.holding.holds.recheck_cause_later(self)

    @contained
    def write_confirms(self) -> None:
        """Write acks and nacks of completed publishes to the client."""
        if self.confirms is not None:
            acked = self.confirms.write(self.number, self.connection.output)
            self.acceptor.counters.confirmed += acked
            self.traffic.confirmed += acked
            self.acceptor.dirty[self.connection] = None

    # Out

    def fail(self, error: AMQPError) -> None:
        """Close an open channel for an error of the client, or the connection if it is a hard error."""
        if self.stage is not OPEN:
            return
        if self.method is not None and not error.class_id:
            error.class_id, error.method_id = self.method.class_id, self.method.method_id
        if error.hard:
            self.connection.fail(error)
            return
        self.connection.log_error(error, self.number)
        self.send(
            "channel_close",
            reply_code=error.code, reply_text=error.reply_text, class_id=error.class_id, method_id=error.method_id,
        )  # fmt: skip
        closes = any(isinstance(item, ParkedMethod) and item.method.name == "channel_close" for item in self.inbox)
        self.end(ChannelEvent.ERROR, keep_parked=False)
        if closes:
            self.answer_close()

    def answer_close(self) -> None:
        """Answer the client's channel.close, which has crossed the broker's."""
        self.happened(ChannelEvent.CLOSE)
        self.send("channel_close_ok")

    def broken(self, error: Exception) -> None:
        """A bug of ours ends the connection; of a detached channel it drops the parked publishes."""
        if self.stage is DETACHED:
            messages = sum(item.count for item in self.inbox if isinstance(item, ParkedRun))
            log.error("parked publishes dropped", connection=self.connection.id, messages=messages, exc_info=error)
            self.end(ChannelEvent.BUG, keep_parked=False)
        else:
            self.connection.broken(error)

    def end(self, event: ChannelEvent, *, keep_parked: bool) -> None:
        """End the channel: requeue unacked messages, forget consumers. Parked publishes may outlive the channel."""
        self.happened(event)
        self.running = None
        if self.transaction is not None:
            keep_parked = False  # none of it is committed
            self.transaction.forget()
            self.transaction = None
        for consumer in self.consumers.values():
            self.leave_to_lease(consumer)
        if self.unacked.total:  # Gone would requeue them too, but is not resent until it is safe
            self.unacked.settle_all(SETTLE_REQUEUE, self.services.settling.places(self.shards))
        for shard in self.shards:
            self.acceptor.links[shard].end_group(self.group)
        self.shards.clear()
        self.acceptor.sharing.pop(self.group, None)
        for consumer in self.consumers.values():
            self.services.delivery.forget(consumer)
        self.consumers.clear()
        self.services.replies.cancel(self)
        self.acceptor.counters.ended.add(self.counted())
        self.unacked = UnackedTags()
        self.leave_gates()
        self.unwarn()
        if self.hold is not None:
            self.services.holding.holds.release(self)
        parked = [item for item in self.inbox if isinstance(item, ParkedRun)] if keep_parked else []
        while self.inbox:
            self.unpark()
        if parked:
            self.services.orphans.adopt(self, parked)

    def heir(self) -> Channel:
        heir = Channel(self.connection, self.number, self.services)
        heir.happened(ChannelEvent.INHERITS)
        return heir
