"""The state of one channel, for all parts that work on it; what it does is acceptor/amqp/channel.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Protocol

from acceptor.clients.asking import Answer
from acceptor.clients.channel_stage import CHANNEL, DETACHED, OPEN, ChannelEvent, ChannelStage
from acceptor.clients.hold import Hold
from acceptor.clients.inbox import EMPTY
from acceptor.clients.notices import ChannelNotices
from acceptor.clients.parked import ParkedMethod, ParkedRun
from acceptor.clients.prefetch import SharedPrefetch
from acceptor.clients.receiving import Receiving
from acceptor.clients.running import Running, Uncommitted
from acceptor.clients.traffic import Traffic
from acceptor.gates.confirms import Confirms, Withholding
from acceptor.gates.gate import Gate
from acceptor.gates.queue_gate import QueueGate
from acceptor.links.unacked_cy import UnackedTags
from acceptor.routing.channel_routes import MOST, ChannelRoutes
from acceptor.routing.route import Route
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.scan_cy import Method, PublishRun, SettleRun
from penstock.amqp.spec import MethodSpec
from penstock.states.transitions import Staged
from router.model.topics_cy import Work

if TYPE_CHECKING:
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.consumers import Consumer
    from acceptor.gates.permissions import Access


class OpenTransaction(Uncommitted, Protocol):
    """What a channel has published and settled since its last commit or rollback
    (acceptor/transactions/transaction.py).
    """

    @property
    def since(self) -> float | None: ...

    def publish(self, run: ParkedRun) -> None: ...

    def settle(self, channel: ChannelState, run: SettleRun) -> int: ...

    def forget(self) -> None: ...


class ChannelState(Staged[ChannelStage, ChannelEvent], ABC):
    """The state of one channel. `connection.output` takes what it has to say."""

    transitions = CHANNEL

    transaction: OpenTransaction | None

    def __init__(self, connection: ConnectionState, number: int, overtaking: bool) -> None:
        acceptor = connection.acceptor
        self.connection = connection
        self.acceptor = acceptor
        self.access = connection.access
        self.number = number
        self.group = acceptor.next_group(connection)
        self.stage = OPEN
        self.inbox = EMPTY
        self.overtaking = overtaking
        self.running: Running | None = None
        self.method: MethodSpec | None = None
        self.gates: list[Gate] = []
        self.hold: Hold | None = None
        self.notices = ChannelNotices()
        self.traffic = Traffic()
        self.confirms: Confirms | None = None
        self.withheld = 0
        self.route: Route | None = None
        self.routes = ChannelRoutes()
        self.transaction = None
        self.unacked = UnackedTags()
        self.consumers: dict[str, Consumer] = {}
        self.getters: dict[int, int] = {}
        self.shards: set[int] = set()
        self.receiving = Receiving(acceptor.settings.amqp.prefetch_max)
        self.shared_prefetch = SharedPrefetch(self)

    # What it is about

    def whose(self) -> dict[str, Any]:
        """Return the fields that identify the channel in log lines and answers."""
        return {**self.connection.whose(), "channel": self.number}

    def counted(self) -> Traffic:
        """Return its traffic so far. Acks of an open transaction count until that is rolled back."""
        self.traffic.acked = self.unacked.acked
        return self.traffic

    def published_along(self, route: Route) -> None:
        """Note the route of the last publish, another than before."""
        self.route = route
        recent = self.routes.recent
        recent.pop(route, None)  # the last ones are at the end
        recent[route] = None
        if len(recent) > MOST:
            del recent[next(iter(recent))]

    def transactions(self) -> list[Uncommitted]:
        """Return the transactions whose settlements have not been sent: the one waiting for room, and the open one."""
        committing = None if self.running is None else self.running.committing
        return [transaction for transaction in (committing, self.transaction) if transaction is not None]

    def consumers_by_shard(self) -> dict[int, list[int]]:
        """Return the ids of its consumers by shard, without unassigned ones: they are attached to their next home as
        they are by then.
        """
        found: dict[int, list[int]] = {}
        for consumer in self.consumers.values():
            if consumer.shard != self.acceptor.nowhere:
                found.setdefault(consumer.shard, []).append(consumer.id)
        return found

    def is_delivered_to(self) -> bool:
        """Whether its consumers get messages: the client wants them, and its connection may have more."""
        return self.receiving.active and not self.connection.deliveries_withheld

    def settles(self) -> bool:
        """Whether acks may come, or the commit or rollback of acks that have come."""
        return bool(self.consumers) or self.has_in_hand()

    def has_in_hand(self) -> bool:
        """Whether the channel has unacked deliveries, or settlements to commit."""
        return bool(self.unacked.total or (self.transaction is not None and self.transaction.journal))

    def runs_at_gates(self) -> bool:
        """Whether its running method waits for room."""
        return self.running is not None and self.running.at_gates

    def waits_for_lane(self) -> bool:
        """Whether a parked run may go by a priority lane, at once or when the methods before it are done."""
        return any(isinstance(item, ParkedRun) and item.in_lane for item in self.inbox)

    def budget(self) -> Work:
        """Return the work that its connection may still spend on routing in this turn."""
        return self.connection.budget.at(self.acceptor.turns)

    def messages_parked(self) -> int:
        """Return the number of publishes that wait in it."""
        return sum(item.count for item in self.inbox if isinstance(item, ParkedRun))

    def size(self) -> int:
        """Return the approximate size of the next parked message in bytes; at least 1."""
        item = self.inbox[0] if self.inbox else None
        return max(item.nbytes // item.count, 1) if isinstance(item, ParkedRun) and item.count else 1

    @property
    def held_by(self) -> Gate | None:
        """The gate that its client was notified of; None while the channel is free."""
        return None if self.hold is None else self.hold.gate

    @property
    def refusing(self) -> QueueGate | None:
        """The queue that refuses its publishes."""
        return None if self.hold is None else self.hold.refusing

    def leave_to_lease(self, consumer: Consumer) -> None:
        """A consumer has gone: what it has not settled is its lease's, if it has one."""
        if consumer.lease is not None:
            self.unacked.leave({consumer.id})

    def notified_by(self) -> list[str]:
        """Return the methods that have notified its client of a stop: `flow`, `blocked`."""
        methods = ["flow"] if self.notices.flow else []
        if self.notices.blocked and self.connection.client.has_capability("connection.blocked"):
            methods.append("blocked")
        return methods

    def held_seconds(self) -> float:
        """Return for how long it has been held; 0 while it is free."""
        return 0.0 if self.hold is None else round(self.acceptor.now - self.hold.since, 3)

    def cause(self) -> Gate | None:
        """Return the gate that holds the channel: the one that its client was notified of while that is in the way,
        else the first one.
        """
        return self.held_by if self.withheld or self.held_by in self.gates or not self.gates else self.gates[0]

    # Out

    def send(self, name: str, **arguments: Any) -> None:
        """Send a method to the client."""
        if self.stage is not DETACHED:
            self.connection.send(self.number, name, **arguments)

    def confirmed(self) -> None:
        """Some publishes are confirmed: write their acks at the end of the turn."""
        if self.stage is OPEN:
            self.acceptor.confirming[self] = None

    def time_out(self, milliseconds: int) -> None:
        """Close the channel: its client did not acknowledge in time."""
        self.end_by(
            f"delivery acknowledgement on channel {self.number} timed out. Timeout value used: {milliseconds} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        )

    def end_by(self, text: str) -> None:
        """Close the channel with 406, not naming any method of the client."""
        self.method = None
        self.fail(amqp_error(406, text))

    # Implemented by Channel

    @abstractmethod
    def take_method(self, frame: Method, method: MethodSpec, arguments: dict[str, Any]) -> None:
        """A method has arrived."""

    @abstractmethod
    def take_publishes(self, run: PublishRun) -> None:
        """Publishes have arrived."""

    @abstractmethod
    def take_settlements(self, run: SettleRun) -> None:
        """Acks, nacks or rejects have arrived."""

    @abstractmethod
    def take_oversize(self, size: int) -> None:
        """A message was announced whose `size` in bytes is too large."""

    @abstractmethod
    def fail(self, error: AMQPError) -> None:
        """Close the channel for an error of the client, or the connection if it is a hard error."""

    @abstractmethod
    def rights_change(self, access: Access) -> None:
        """The client has other rights from now on."""

    @abstractmethod
    def broken(self, error: Exception) -> None:
        """A bug of ours ends its connection, or what it left behind."""

    @abstractmethod
    def write_confirms(self) -> None:
        """Write the confirms that are complete."""

    @abstractmethod
    def resume(self, answer: Answer) -> None:
        """Resume the running method with the answer that it waits for."""

    @abstractmethod
    def park(self, item: ParkedRun | ParkedMethod) -> None:
        """Append an item to the inbox and account for its bytes."""

    @abstractmethod
    def unpark(self, at: int = 0) -> None:
        """Remove an item from the inbox and account for its bytes."""

    @abstractmethod
    def handle(self, method: MethodSpec, arguments: dict[str, Any]) -> None:
        """Handle a method."""

    @abstractmethod
    def forward(self, run: ParkedRun, most: int) -> int:
        """Publish messages of a run as far as there is room, at most `most`. Return how many more may follow."""

    @abstractmethod
    def pump(self, most: int) -> None:
        """Process the inbox until something has to wait, publishing at most `most` messages."""

    @abstractmethod
    def overtake(self) -> None:
        """Handle parked methods that may overtake publishes, and were parked only behind a running method."""

    @abstractmethod
    def may_overtake(self, method: MethodSpec, arguments: dict[str, Any], end: int) -> bool:
        """Whether a method may go before the first `end` items of the inbox."""

    @abstractmethod
    def head_has_gone(self) -> None:
        """The first item of the inbox has been published before its turn."""

    @abstractmethod
    def admit(self, most: int) -> None:
        """A gate admits the channel: publish at most `most` messages."""

    @abstractmethod
    def pass_lane(self, most: int) -> int:
        """Publish messages parked for priority lanes, at most `most`. Return how many were sent."""

    @abstractmethod
    def share(self, by: str) -> tuple[Hashable, int]:
        """Return the key of the share in which the channel takes its turns at a gate, and its user's weight."""

    @abstractmethod
    def reconsider(self) -> None:
        """Routes have changed: leave gates that the first parked run need not pass."""

    @abstractmethod
    def held_at(self, gate: Gate) -> None:
        """A gate at which the channel waits is saturated: hold the channel and notify its client."""

    @abstractmethod
    def withholds(self, queue_gate: Withholding) -> bool:
        """Whether confirms are withheld from the channel while this queue is saturated."""

    @abstractmethod
    def withheld_at(self, gate: Gate) -> None:
        """A span's confirms are withheld at a gate: hold the channel, though nothing of it is parked."""

    @abstractmethod
    def no_longer_withheld(self) -> None:
        """The confirms of a withheld span are complete."""

    @abstractmethod
    def wait_at(self, gate: Gate) -> None:
        """Wait at a gate. A saturated gate holds the channel at once."""

    @abstractmethod
    def leave_gates(self) -> None:
        """Stop waiting at every gate."""

    @abstractmethod
    def leave_gate(self, gate: Gate) -> None:
        """Stop waiting at this gate."""

    @abstractmethod
    def unwarn(self) -> None:
        """Retract the early notice of a stop."""

    @abstractmethod
    def recheck_warning(self) -> None:
        """Retract the early notice if it does not concern the channel: routes or means may have changed."""

    @abstractmethod
    def release_if_free(self) -> None:
        """Release the channel if nothing of it waits, neither publishes nor confirms."""

    @abstractmethod
    def end(self, event: ChannelEvent, *, keep_parked: bool) -> None:
        """End the channel for an event. Parked publishes may outlive the channel."""

    @abstractmethod
    def heir(self) -> ChannelState:
        """Return a detached channel for the parked publishes that outlive this one."""
