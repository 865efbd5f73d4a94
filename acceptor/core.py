"""The acceptor without its sockets: connections, the replica of the topology, routes, and a link to each shard.

All input of one turn of the loop is processed first; `finish_turn` then writes confirms and closes the outgoing turns.
Nothing here waits and nothing reads a clock: the shell sets `now` (seconds, monotonic) and calls `tick`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from acceptor.amqp.connection import Connection, forced
from acceptor.amqp.methods import HANDLERS
from acceptor.amqp.services import Services
from acceptor.budgets.budgets import Budgets
from acceptor.budgets.headcount import Headcount
from acceptor.budgets.quotas import Quotas
from acceptor.clients.channel_stage import OPEN as CHANNEL_OPEN
from acceptor.clients.client import Client
from acceptor.clients.connection_stage import OPEN
from acceptor.clients.connection_state import ConnectionState, Transport
from acceptor.clients.silence import Silence
from acceptor.clients.state import AcceptorState
from acceptor.clients.tls_facts import TlsFacts
from acceptor.consuming.consumer_timeouts import ConsumerTimeouts
from acceptor.consuming.delivery import Delivery
from acceptor.consuming.replies import Replies
from acceptor.consuming.settling import Settling
from acceptor.direct.clients import DirectClients
from acceptor.gates.fair import Weights
from acceptor.gates.permissions import Permissions
from acceptor.gates.terms import UserTerms
from acceptor.holding.early import EarlyNotice
from acceptor.holding.event_log import EventLog
from acceptor.holding.holding import Holding
from acceptor.holding.metered_events import facts as metered_facts
from acceptor.links.shard_link import ShardLink
from acceptor.logins.backends import authentication
from acceptor.moving.moving import Moves
from acceptor.moving.requests import Requests
from acceptor.moving.suspects import Suspects
from acceptor.publishing.orphans import Orphans
from acceptor.publishing.overtaking import Overtaking
from acceptor.publishing.publishing import Publishing
from acceptor.publishing.traced import TracedPublishing
from acceptor.routing.gates import Gates
from acceptor.routing.routes import Routes
from acceptor.transactions.replacing import Replacing
from penstock import bus
from penstock.bus import to_acceptor
from penstock.bus.link_stage import UP, LinkStage
from penstock.bus.operations_cy import Operation
from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger
from penstock.settings import Settings
from router.model.resource_limits import Holder
from router.model.topology import Queue

log = get_logger()

POWERS = frozenset({
    "policy", "policy_gone", "permission", "permission_gone", "topic_permission", "topic_permission_gone", "user_gone",
    "binding_gone",
})  # fmt: skip
"""Kinds of changes of the topology after which a queue may no longer hold publishes that it held before."""


class Beginning(Enum):
    """How far an incarnation has begun."""

    LOADING = "it has no topology yet"
    READY = "it has its place, or waits until it has that or may replace its predecessor"
    REPLACING = "its predecessor is asked to end, and leaves the place to it"


class AcceptorCore:
    """One incarnation of one acceptor: its parts, and what comes from the other processes."""

    def __init__(self, index: int, incarnation: int, gauges: Gauges, settings: Settings, node_name: str) -> None:
        self.state = state = AcceptorState(index, incarnation, gauges, settings, node_name)
        self.topology, self.links = state.topology, state.links
        if state.has_place():
            for link in self.links:
                link.begin_counting()
        self.beginning = Beginning.LOADING
        self.powers_changed = False
        self.authentication = authentication(settings, self.topology, state.clock, state.wall)
        self.headcount = Headcount(self.topology, settings.resolved_limits, state.clock)
        self.weights = Weights(self.topology)
        self.user_terms = UserTerms(self.topology)
        self.gates = Gates(
            index, incarnation, self.topology, gauges, settings, self.links, state.clock, lambda: state.turns
        )  # fmt: skip
        self.events = EventLog(self.topology, gauges, self.links)
        self.quotas = Quotas(state)
        self.holding = holding = Holding(state, self.gates, self.quotas, self.user_terms, self.events)
        self.budgets = budgets = Budgets(state)
        self.delivery = Delivery(state, holding.drip, budgets.outputs)
        self.moves = Moves(state, self.gates, self.delivery, self.queue_is_home)
        self.routes = Routes(self.topology, self.links, settings.acceptors, self.gates, self.moves)
        self.early = EarlyNotice(state, self.gates, self.routes, holding.notifier, holding.holds)
        self.patience = ConsumerTimeouts(state)
        self.replies = Replies(state, budgets.outputs)
        self.suspects = Suspects(state)
        self.orphans = Orphans(self.quotas)
        self.requests = Requests(state, self.moves)
        overtaking = Overtaking(self.routes, holding.holds.recheck_cause_later)
        parts = (
            state, self.gates, self.routes, overtaking, holding.notifier, holding.escalations, holding.books.episodes
        )  # fmt: skip
        sample = state.tracing.sample
        publishing = Publishing(*parts) if sample is None else TracedPublishing(sample, *parts)
        self.services = Services(
            acceptor=state, handlers=HANDLERS, permissions=Permissions(), logins=self.authentication.logins,
            headcount=self.headcount, weights=self.weights, gates=self.gates,
            routes=self.routes, overtaking=overtaking, publishing=publishing,
            settling=Settling(state, self.gates.queue_gates), delivery=self.delivery, replies=self.replies,
            moves=self.moves, requests=self.requests, orphans=self.orphans, replacing=Replacing(), holding=holding,
            early=self.early, accounts=budgets.accounts, outputs=budgets.outputs, unfinished=budgets.unfinished,
            unread=budgets.unread, silence=Silence(state),
        )  # fmt: skip
        self.direct = DirectClients(self.services)

    def connect(self, transport: Transport, peer: str, peer_host: str, tls: TlsFacts | None = None) -> Connection:
        """Return the connection of a client that has connected, with TLS or (None) without."""
        number = self.state.next_connection()
        id = f"{self.state.index}.{self.state.incarnation}.{number}"
        connection = Connection(self.services, id, number, transport, Client(peer, peer_host, tls))
        self.state.connections[id] = connection
        return connection

    def is_ready(self) -> bool:
        """Whether it has the topology."""
        return self.beginning is not Beginning.LOADING

    def replaces(self) -> None:
        """Do the work of the predecessor, which is asked to end."""
        self.beginning = Beginning.REPLACING

    def serves(self) -> bool:
        """Whether it meets shards and accepts clients. If a successor dies before, nobody knows it."""
        return self.beginning is Beginning.REPLACING or self.state.has_place()

    def waits(self) -> bool:
        """Whether a turn waits for more to send, or for `now` to be a little later."""
        for link in self.links:  # noqa: SIM110  a generator costs more than the checks, in each turn
            if link.stage is not LinkStage.ABSENT and link.waits(self.state.now):
                return True
        return False

    # Topology

    def load(self, version: int, changes: list[Any]) -> None:
        """Replace the replica of the topology by a snapshot."""
        self.topology.reset()
        for change in changes:
            self.change(change)
        self.gates.keep_only({change[3] for change in changes if change[0] == "queue"})
        self.moves.keep_only(self.topology.moves)
        for connection in list(self.state.connections.values()):
            self.check_home(connection)
        self.topology.version = version
        if self.beginning is Beginning.LOADING:
            self.beginning = Beginning.READY
        self.follow_up()

    def apply(self, version: int, changes: list[Any]) -> None:
        """Apply the changes of one version of the topology."""
        for change in changes:
            self.change(change)
        self.topology.version = version
        self.follow_up()

    def follow_up(self) -> None:
        """Resume all that the topology held up: channels at gates, and methods that the router has answered."""
        self.moves.settle()
        self.reroute()
        self.gates.apply_changed()
        if self.powers_changed:
            self.powers_changed = False
            for queue_gate in self.gates.queue_gates.values():
                if queue_gate.withheld:
                    queue_gate.release_others(partial(self.routes.waits, queue_gate))
        self.requests.catch_up()

    def change(self, change: list[Any]) -> None:
        """Apply one change, and its effect on gates, moves and connections."""
        self.topology.apply(change)
        self.powers_changed |= change[0] in POWERS
        if change[0] == "queue":
            self.gates.limit_queue(Queue(*change[1:]))
        elif change[0] == "queue_gone":
            self.gates.close_queue_gate(change[3])
        elif change[0] == "move":
            self.moves.apply(self.topology.moves[change[1]])
        elif change[0] == "move_gone":
            self.moves.over(change[1])
        elif change[0] == "stop":
            self.gates.stop(change[1])
        elif change[0] == "stop_gone":
            self.gates.lift(change[1])
        elif change[0] == "vhost_gone":
            self.expel(lambda connection: connection.access.vhost == change[1], f"vhost '{change[1]}' is deleted")
        elif change[0] == "limits":
            self.headcount.limits_change(Holder(*change[1:3]))
        elif change[0] == "user_gone":
            self.expel(
                lambda connection: connection.access.rights.is_internal and connection.user == change[1],
                f"user '{change[1]}' is deleted",
            )

    def check_home(self, connection: ConnectionState) -> None:
        """After a snapshot: close a connection whose vhost or user is deleted."""
        user, vhost = connection.user, connection.access.vhost
        if not self.topology.has_vhost(vhost):
            self.expel(lambda other: other is connection, f"vhost '{vhost}' is deleted")
        elif connection.access.rights.is_internal and self.topology.users.user(user) is None:
            self.expel(lambda other: other is connection, f"user '{user}' is deleted")

    def expel(self, concerned: Callable[[ConnectionState], bool], reason: str) -> None:
        """Close the open connections that are `concerned`, for a reason that the operator gave."""
        for connection in list(self.state.connections.values()):
            if connection.stage is OPEN and concerned(connection):
                connection.close(forced(reason))

    def queue_is_home(self) -> None:
        """A queue that has moved takes what comes."""
        self.reroute()
        self.gates.apply_changed()

    def reroute(self) -> None:
        """Drop all that was derived from the topology: routes, terms, weights; recheck waiting and held channels."""
        self.routes.clear()
        self.user_terms.clear()
        self.weights.apply_topology()
        self.gates.reconsider()
        self.early.reconsider()
        self.holding.holds.apply_terms()

    # Shards

    def shard_started(self, shard: int) -> None:
        """Greet a new incarnation of a shard."""
        link = self.links[shard]
        if link.stage is UP:
            self.shard_died(shard)
        self.delivery.shard_started(shard)
        link.start()

    def shard_died(self, shard: int) -> None:
        """Handle the death of a shard: at its link, moves, gates and suspects."""
        link = self.links[shard]
        served = link.stage is UP
        link.died()
        self.moves.shard_died(shard)
        self.gates.shard_died(shard)
        if served:  # else it was sent nothing but a hello
            self.suspects.incarnation_ended(link)

    def shard_gone(self, shard: int) -> None:
        """Forget a shard that was removed for good, with no queue on it."""
        for channel in self.state.channels():
            channel.shards.discard(shard)
            channel.shared_prefetch.shard_gone(shard)
        self.links[shard].end()

    def receive(self, shard: int, safe: int, operations: list[Operation], parts: list[Any]) -> None:
        """Process one turn of a shard. An operation that fails affects its own consumer only. The report, `safe`, is
        applied after the operations: refusals are known before their turn counts as safe.
        """
        link = self.links[shard]
        for operation in operations:
            try:
                self.take_in(link, operation, parts)
            except Exception as error:
                self.break_off(operation, error)
        link.processed(safe)
        if link.dequeued:
            self.gates.give_dequeued(link)
        self.gates.on_turn()
        if link.stage is not UP and link.stage is LinkStage.AWAITING:
            self.delivery.resume(shard)
            self.moves.resumed(shard)
            self.replies.announce_all(shard)

    def take_in(self, link: ShardLink, operation: Operation, parts: list[Any]) -> None:
        """Dispatch one operation of a shard."""
        match operation:
            case to_acceptor.Deliver():
                self.delivery.deliver(operation, parts)
            case to_acceptor.Reply():
                link.replied(operation.request, operation.result, operation.error, parts)
            case to_acceptor.Flow():
                self.gates.on_broadcast(operation.queue, operation.epoch)
                self.holding.delays.measure(operation.saturated, operation.moment)
            case to_acceptor.MostWaiters():
                self.gates.parts.on_most_waiters(operation)
            case to_acceptor.Room():
                self.gates.parts.given(operation)
            case to_acceptor.Rejected():
                link.rejected(operation)
            case to_acceptor.Refused():
                link.refused(operation)
            case to_acceptor.Dequeued():
                link.dequeued.append(operation)
            case to_acceptor.Answers():
                self.replies.deliver(operation.name, bus.batch_at(parts, operation.part), operation.messages)
            case to_acceptor.Fenced():
                self.moves.fenced(operation)
            case to_acceptor.Opened():
                self.moves.opened(operation)
            case _:
                self.delivery.on_operation(link.index, operation)

    def break_off(self, operation: Operation, error: Exception) -> None:
        """Handle a bug of ours in an operation: end the consumer's connection, or just log it if there is none."""
        consumer = None
        if isinstance(operation, to_acceptor.Deliver):
            consumer = self.delivery.consumers.get(operation.consumer)
        if consumer is None:
            log.error("operation of a shard failed", operation=type(operation).__name__, exc_info=error)
        else:
            consumer.channel.broken(error)

    # Turns and time

    def finish_turn(self) -> list[tuple[int, list[Any]]]:
        """Write confirms and close the outgoing turns. Return (shard, multipart) pairs to send."""
        self.state.turns += 1
        confirming, self.state.confirming = self.state.confirming, {}
        for channel in confirming:
            if channel.stage is CHANNEL_OPEN:
                channel.write_confirms()
        if self.state.tracing.unconfirmed:
            self.state.tracing.follow_confirms()
        if self.gates.claims.open:
            self.gates.claims.settle()
        turns = []
        for link in self.links:
            while (frames := link.close_turn(self.topology.version, self.state.now)) is not None:
                turns.append((link.index, frames))
        return turns

    def recheck(self) -> None:
        """Run timers, drip, and poll everything that a lost broadcast may have left waiting; called often."""
        for chore in self.rechecks():
            chore()

    def rechecks(self) -> tuple[Callable[[], None], ...]:
        """Return the chores of `recheck`, in order."""
        return (
            self.state.run_due, self.budgets.outputs.recheck, self.recheck_unfinished, self.drip,
            self.gates.recheck_queues, self.services.replacing.recheck, self.early.warn_channels, self.update_pressure,
            self.recheck_others, self.publish_metered_events, self.escalate_holds, self.orphans.forget_empty,
            self.orphans.take_late_closes, self.services.silence.recheck, self.delivery.forget_holders,
            self.write_counters,
        )  # fmt: skip

    def recheck_unfinished(self) -> None:
        """Poll the connections with unfinished bodies."""
        self.budgets.unfinished.recheck(self.state.now)

    def drip(self) -> None:
        """Read a little from paused connections."""
        self.holding.parking.read_paused(self.state.now)

    def update_pressure(self) -> None:
        """Stop or free vhosts over their guarantee; routes pass other gates then."""
        if self.gates.pressure.update(self.gates.freed):
            self.reroute()

    def recheck_others(self) -> None:
        """Poll gates other than those of queues."""
        self.gates.recheck_others(self.state.now)

    def escalate_holds(self) -> None:
        """Move held channels up and down their ladders."""
        self.holding.escalations.advance(self.state.now)

    def publish_metered_events(self) -> None:
        """Publish events about limited rates and paced queues that begin or cease to hold channels."""
        begun, over = self.gates.metered.changed(self.state.now)
        for held in begun:
            self.publish_event(metered_facts(held, True, self.state.now))
        for held in over:
            self.publish_event(metered_facts(held, False, self.state.now))

    def publish_event(self, facts: dict[str, Any]) -> None:
        """Publish an event of this moment (`penstock.flow.flow_events`)."""
        self.events.publish(facts, self.state.now + self.state.origin.wall)

    def has_all_shards(self) -> bool:
        """Whether it has the topology, and a link to each shard."""
        return self.is_ready() and all(self.links[shard].stage is UP for shard in self.topology.shards)

    def parked_in_memory(self) -> int:
        """Return the parked bytes that are not on disk."""
        return self.holding.parking.parked_bytes - (0 if self.state.spool is None else self.state.spool.held)

    def tick(self) -> None:
        """Run the chores of each second, such as heartbeats and deadlines."""
        for chore in self.ticks():
            chore()

    def ticks(self) -> tuple[Callable[[], None], ...]:
        """Return the chores of `tick`, in order."""
        return (
            self.tick_connections,
            self.expire_rights,
            self.enforce_timeouts,
            self.end_idle_counting,
            self.refresh_notices,
            self.early.tick,
        )

    def tick_connections(self) -> None:
        """Enforce deadlines and heartbeats of all connections."""
        for connection in list(self.state.connections.values()):
            connection.tick(self.state.now)

    def expire_rights(self) -> None:
        """Make routes anew if services may answer otherwise by now."""
        if self.authentication.expire():
            self.reroute()

    def enforce_timeouts(self) -> None:
        """Close channels that keep deliveries unacked, or a transaction open, for too long."""
        self.patience.tick(self.state.now)

    def end_idle_counting(self) -> None:
        """Stop counting publishes by route once no operator asks for the counts."""
        self.routes.end_idle_counting(self.state.now)

    def refresh_notices(self) -> None:
        """Notify clients of a changed cause, and refresh reasons."""
        self.holding.refresh_notices(self.state.now)

    def write_counters(self) -> None:
        """Write the counters into the gauges if those are this incarnation's. Once all shards are up, clear the claims
        of its predecessor.
        """
        if not self.state.has_place():
            return
        for link in self.links:
            link.begin_counting()
        if self.has_all_shards():
            self.gates.claims.succeed()
        state, holding = self.state, self.holding
        state.gauges.counters_write(
            "acceptor", state.index, len(state.connections), state.counters.open_channels,
            len(holding.holds.held), holding.parking.parked_bytes,
            len({*holding.drip.paused, *self.budgets.unread.since}),
            state.counters.published, self.delivery.delivered_total, state.counters.confirmed, state.turns,
            holding.notifier.ignoring,
            *[*holding.escalations.counters(), self.gates.wakeups.lost, self.headcount.refused],
        )  # fmt: skip

    def write_flow_sums(self) -> None:
        """Write the sums of flow control into the gauges."""
        delays, ledger = self.holding.delays, self.holding.books.ledger
        self.state.gauges.flow_write(
            "acceptor", self.state.index, ledger.held_us(self.state.now), self.budgets.accounts.kept,
            delays.stop.words(), delays.resume.words(),
        )  # fmt: skip

    def shut_down(self) -> None:
        """Close every open connection: the broker shuts down."""
        for connection in list(self.state.connections.values()):
            if connection.stage is OPEN:
                connection.close(forced("broker forced connection closure with reason 'shutdown'"))
