"""The acceptor without its sockets: connections, the replica of the topology, routes, and a link to each shard.

All input of one turn of the loop is processed first; `finish_turn` then writes confirms and closes the outgoing turns.
Nothing here waits and nothing reads a clock: the shell sets `now` (seconds, monotonic) and calls `tick`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from acceptor.accounts import Accounts
from acceptor.asking import Answer, ToRouter, ToShard
from acceptor.channel import Channel
from acceptor.connection import Connection, Transport, forced
from acceptor.delivery import Delivery
from acceptor.early import EarlyNotice
from acceptor.episodes import Episodes
from acceptor.escalation import Escalations
from acceptor.event_log import EventLog
from acceptor.fair import Weights
from acceptor.gates import Gates
from acceptor.headcount import Headcount
from acceptor.last_resort import LastResort
from acceptor.logins import Logins
from acceptor.metered_events import facts as metered_facts
from acceptor.moving import Moves
from acceptor.outputs import Outputs
from acceptor.parked import ParkedRun
from acceptor.patience import Patience
from acceptor.permissions import Permissions
from acceptor.quotas import ORPHAN_OCTETS, OVERDRAFT, RUN_OCTETS, Quotas
from acceptor.replies import Replies
from acceptor.routes import Routes
from acceptor.settling import awaited
from acceptor.shard_link import ShardLink
from acceptor.spool import Spool
from acceptor.suspects import Suspects
from acceptor.terms import UserTerms
from acceptor.throttle import Throttle
from acceptor.unacked_cy import Settlements
from acceptor.unfinished import Unfinished
from acceptor.unread import Unread
from penstock import bus
from penstock.amqp.errors import AMQPError
from penstock.amqp.spec import MethodSpec
from penstock.batch.arena import Arena
from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger
from penstock.settings import Settings
from penstock.telemetry.rows import Put, nowhere
from router.model.resource_limits import Holder
from router.model.topology import Queue, Topology

log = get_logger()

OUTCOMES = frozenset({bus.REJECTED, bus.REFUSED, bus.DEQUEUED})
"""Operations of a shard that report the outcome of publishes and transactions."""
POWERS = frozenset({
    "policy", "policy_gone", "permission", "permission_gone", "topic_permission", "topic_permission_gone", "user_gone",
    "binding_gone",
})  # fmt: skip
"""Kinds of changes of the topology after which a queue may no longer hold publishes that it held before."""


class AcceptorCore:
    """One incarnation of one acceptor. `until_current` are actions that wait for the replica to catch up with the
    topology.

    `began` is when its clock was at 0, in seconds since 1970 by the wall clock, `node_began` the same by the node's
    (`penstock.node.clock`). `dirty` connections have output to flush, `confirming` channels confirms to write.
    `orphans` are detached channels with parked publishes; the close of `late_closes` waits until those may be kept.
    """

    def __init__(self, index: int, incarnation: int, gauges: Gauges, settings: Settings, node_name: str) -> None:
        self.index = index
        self.incarnation = incarnation
        self.gauges = gauges
        self.settings = settings
        self.node_name = node_name
        self.now = 0.0
        self.began = self.node_began = 0.0
        self.topology = Topology()
        self.loaded = False
        self.links = [
            ShardLink(shard, gauges, index, settings.flow.pair_count, settings.flow.pair_bytes)
            for shard in range(gauges.shards)
        ]
        if self.has_place():
            for link in self.links:
                link.begin_counting()
        self.permissions = Permissions(self.topology)
        self.logins = Logins(self.topology, settings.amqp.loopback_users, self.clock)
        self.headcount = Headcount(self.topology, settings.resolved_limits, self.clock)
        self.weights = Weights(self.topology)
        self.gates = Gates(
            index, incarnation, self.topology, gauges, settings, self.links, self.clock, lambda: self.turns
        )  # fmt: skip
        self.moves = Moves(self)
        self.routes = Routes(self.topology, self.links, settings.acceptors, self.gates, self.moves)
        self.events = EventLog(self.topology, gauges, self.links)
        self.user_terms = UserTerms(self.topology)
        self.escalations = Escalations(self)
        self.record: Put = nowhere
        self.episodes = Episodes(self)
        self.quotas = Quotas(self)
        self.last_resort = LastResort(self, self.quotas)
        self.throttle = Throttle(
            settings.flow.parking_bytes, self.user_terms, self.escalations, self.episodes, self.last_resort
        )
        self.accounts = Accounts(settings)
        self.unread = Unread(self)
        self.outputs = Outputs(self, self.accounts)
        self.unfinished = Unfinished(self, self.accounts)
        self.arena: Arena | None = None
        self.spool: Spool | None = None
        self.connections: dict[str, Connection] = {}
        self.open_channels = 0
        self.delivery = Delivery(self)
        self.early = EarlyNotice(self, settings.flow.early_rate)
        self.patience = Patience(self, settings.amqp.consumer_timeout, settings.amqp.transaction_timeout)
        self.replies = Replies(self)
        self.suspects = Suspects(self)
        self.dirty: dict[Connection, None] = {}
        self.told_first: dict[Connection, None] = {}
        """The output of these is written before the turns are sent."""
        self.confirming: dict[Channel, None] = {}
        self.orphans: dict[Channel, None] = {}
        self.late_closes: dict[Channel, None] = {}
        self.until_current: list[Callable[[], None]] = []
        self.powers_changed = False
        self.router_requests: list[tuple[str, dict[str, Any], Callable[[Any, Any], None]]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.flush: Callable[[Connection], None] = lambda connection: None
        self.published_total = 0
        self.confirmed_total = 0
        self.turns = 0
        self.last_connection = 0
        self.last_group = 0
        self.last_transaction = 0

    # Connections

    def connect(self, transport: Transport, peer: str, peer_host: str) -> Connection:
        """Return the connection of a client that has connected."""
        self.last_connection += 1
        id = f"{self.index}.{self.incarnation}.{self.last_connection}"
        connection = self.connections[id] = Connection(self, id, transport, peer, peer_host)
        return connection

    def forget_connection(self, connection: Connection) -> None:
        """Remove a connection whose socket is gone from all that refers to it."""
        self.connections.pop(connection.id, None)
        self.headcount.connection_is_gone(connection)
        self.delivery.forget_connection(connection)
        self.outputs.lost(connection)
        self.unfinished.forget(connection)
        self.unread.forget(connection)
        self.throttle.forget(connection)

    def delete_exclusive(self, connection: Connection, done: Callable[[], None]) -> None:
        """Have the router delete the exclusive queues of a connection, then call `done`."""
        if not connection.owns_queues:
            done()
            return
        arguments = {"connection": connection.id}
        self.router_requests.append(("connection_closed", arguments, lambda result, error: done()))

    def behind(self) -> bool:
        """Whether the replica lacks changes of the topology; nothing may be routed by it then."""
        behind: bool = self.gauges.topology_version() > self.topology.version
        return behind

    def log_error(self, connection: Connection, error: AMQPError, channel: int) -> None:
        """Log an error of a client; `channel` is 0 for one of the connection."""
        log.warning("client error", code=error.code, text=error.text, connection=connection.id, channel=channel,
                    peer=connection.peer, user=connection.user, client=connection.client)  # fmt: skip

    # Requests of channels

    def next_group(self, connection: Connection) -> int:
        """Return the number by which shards know a new channel: its connection's number before its own."""
        self.last_group += 1
        return connection.number << bus.GROUP_BITS | self.last_group & (1 << bus.GROUP_BITS) - 1

    def next_transaction(self) -> int:
        """Return the number by which shards know a transaction over several of them."""
        self.last_transaction += 1
        return self.last_transaction

    def ask(self, request: ToRouter | ToShard, resume: Callable[[Answer], None]) -> None:
        """Send a request of a running method, and call `resume` with the answer."""
        if isinstance(request, ToRouter):

            def done(result: Any, error: Any) -> None:
                self.once_current(partial(resume, Answer(result, error)))

            self.router_requests.append((request.name, request.arguments, done))
        else:
            self.moves.ask(request, resume)

    def ask_at(self, shard: int, operation: list[Any], resume: Callable[[Answer], None]) -> None:
        """Send a request to a shard, and call `resume` with the answer."""
        self.links[shard].ask(operation, lambda result, error, parts: resume(Answer(result, error, parts)))

    def once_current(self, action: Callable[[], None]) -> None:
        """Call `action` once the replica is current: the router's answer may arrive before the change it refers to."""
        if self.behind():
            self.until_current.append(action)
        else:
            action()

    def tell(self, shard: int, *operation: Any) -> None:
        """Send an operation that has no answer to a shard."""
        self.links[shard].tell(*operation)

    def settling(self, shards: set[int]) -> list[Settlements]:
        """Return where to put settlements, by shard, and last those of unassigned queues. The turns to `shards` get an
        operation for them.
        """
        for shard in shards:
            self.links[shard].settling(self.now)
        return [*(link.next.settlements for link in self.links), self.moves.limbo]

    def settled(self, channel: Channel, count: int, whole: int) -> None:
        """Send the settlements of `count` messages of a channel at once if a consumer or producer may wait for them.
        `whole` is the size in bytes of all that was unacked before.
        """
        if awaited(channel, count, whole):
            for shard in channel.shards:
                self.links[shard].hurries = True

    def waits(self) -> bool:
        """Whether a turn waits for more to send, or for `now` to be a little later."""
        for link in self.links:  # noqa: SIM110  a generator costs more than the checks, in each turn
            if not link.absent and link.waits(self.now):
                return True
        return False

    def may_overtake(self, channel: Channel, method: MethodSpec) -> bool:
        """Whether a method may overtake parked publishes. A close may while they can be kept; otherwise it is late."""
        if method.name != "channel_close":
            return True
        late = self.quotas.is_used_up(channel.connection, ORPHAN_OCTETS, OVERDRAFT)
        if late:
            self.late_closes[channel] = None
        return not late

    def take_late_closes(self) -> None:
        """Retry late closes: their publishes may be kept by now, and their unacked messages may be awaited."""
        late, self.late_closes = self.late_closes, {}
        for channel in late:
            channel.overtake()

    def adopt(self, channel: Channel, parked: list[ParkedRun]) -> None:
        """Have the parked publishes of a channel that ended wait on for room, charged to their user and vhost. They are
        dropped, and that is logged, where the quotas are used up.
        """
        octets = sum(run.octets + RUN_OCTETS for run in parked)
        if self.quotas.is_used_up(channel.connection, octets + ORPHAN_OCTETS, OVERDRAFT):
            log.warning("parked publishes dropped with their connection", connection=channel.connection.id,
                        messages=sum(run.count for run in parked), octets=octets)  # fmt: skip
            return
        heir = Channel(channel.connection, channel.number)
        heir.detached = True
        self.orphans[heir] = None
        self.quotas.keep(channel.connection, ORPHAN_OCTETS)
        for run in parked:
            run.tag, run.mandatory = 0, False
            heir.park(run)
        heir.admit(heir.inbox[0].count if isinstance(heir.inbox[0], ParkedRun) else 1)

    # Topology

    def load(self, version: int, changes: list[Any]) -> None:
        """Replace the replica of the topology by a snapshot."""
        self.topology.reset()
        for change in changes:
            self.change(change)
        self.gates.keep_only({change[3] for change in changes if change[0] == "queue"})
        self.moves.keep_only(self.topology.moves)
        for connection in list(self.connections.values()):
            self.check_home(connection)
        self.topology.version = version
        self.loaded = True
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
        self.gates.look_at_changed()
        if self.powers_changed:
            self.powers_changed = False
            for inlet in self.gates.inlets.values():
                if inlet.withheld:
                    inlet.release_others(partial(self.routes.waits, inlet))
        if not self.behind():
            actions, self.until_current = self.until_current, []
            for action in actions:
                action()

    def change(self, change: list[Any]) -> None:
        """Apply one change, and its effect on gates, moves and connections."""
        self.topology.apply(change)
        self.powers_changed |= change[0] in POWERS
        if change[0] == "queue":
            self.gates.limit_queue(Queue(*change[1:]))
        elif change[0] == "queue_gone":
            self.gates.close_inlet(change[3])
        elif change[0] == "move":
            self.moves.follow(self.topology.moves[change[1]])
        elif change[0] == "move_gone":
            self.moves.over(change[1])
        elif change[0] == "stop":
            self.gates.stop(change[1])
        elif change[0] == "stop_gone":
            self.gates.lift(change[1])
        elif change[0] == "vhost_gone":
            self.expel(lambda connection: connection.vhost == change[1], f"vhost '{change[1]}' is deleted")
        elif change[0] == "limits":
            self.headcount.limits_change(Holder(*change[1:3]))
        elif change[0] == "user_gone":
            self.expel(lambda connection: connection.user == change[1], f"user '{change[1]}' is deleted")

    def check_home(self, connection: Connection) -> None:
        """After a snapshot: close a connection whose vhost or user is deleted."""
        user, vhost = connection.user, connection.vhost
        if not self.topology.has_vhost(vhost):
            self.expel(lambda other: other is connection, f"vhost '{vhost}' is deleted")
        elif self.topology.users.user(user) is None:
            self.expel(lambda other: other is connection, f"user '{user}' is deleted")

    def expel(self, concerned: Callable[[Connection], bool], reason: str) -> None:
        """Close the open connections that are `concerned`, for a reason that the operator gave."""
        for connection in list(self.connections.values()):
            if connection.expected is None and not connection.closing and concerned(connection):
                connection.close(forced(reason))

    def reroute(self) -> None:
        """Drop all that was derived from the topology: routes, terms, weights; recheck waiting and held channels."""
        self.routes.clear()
        self.user_terms.clear()
        self.weights.follow()
        self.gates.reconsider()
        self.early.reconsider()
        self.throttle.take_terms()

    # Shards

    def shard_started(self, shard: int) -> None:
        """Greet a new incarnation of a shard."""
        link = self.links[shard]
        if link.up:
            self.shard_died(shard)
        self.delivery.shard_started(shard)
        link.start()

    def shard_died(self, shard: int) -> None:
        """Handle the death of a shard: at its link, moves, gates and suspects."""
        link = self.links[shard]
        served = link.up
        link.died()
        self.moves.shard_died(shard)
        self.gates.shard_died(shard)
        if served:  # else it was sent nothing but a hello
            self.suspects.life_ended(link)

    def shard_gone(self, shard: int) -> None:
        """Forget a shard that was removed for good, with no queue on it."""
        for channel in self.delivery.channels():
            channel.shards.discard(shard)
            channel.shared_prefetch.shard_gone(shard)
        self.links[shard].end()

    def receive(self, shard: int, taken: int, operations: list[list[Any]], parts: list[Any]) -> None:
        """Process one turn of a shard. An operation that fails affects its own consumer only. The report, `taken`, is
        applied after the operations: refusals are known before their turn counts as safe.
        """
        link = self.links[shard]
        for operation in operations:
            try:
                self.take_in(link, operation, parts)
            except Exception as error:
                self.break_off(operation, error)
        link.taken(taken)
        if link.dequeued:
            self.gates.give_dequeued(link)
        self.gates.turn_taken()
        if link.awaits:
            self.delivery.go_on(shard)
            self.moves.went_on(shard)
            self.replies.tell_again(shard)

    def take_in(self, link: ShardLink, operation: list[Any], parts: list[Any]) -> None:
        """Dispatch one operation of a shard."""
        kind = operation[0]
        if kind == bus.DELIVER:
            self.delivery.deliver(operation, parts)
        elif kind == bus.REPLY:
            link.replied(operation[1], operation[2], operation[3], parts)
        elif kind == bus.FLOW:
            self.gates.hear(operation[1], operation[3])
        elif kind in (bus.MOST_WAITERS, bus.ROOM):
            self.gates.parts.take(kind, *operation[1:])
        elif kind in OUTCOMES:
            link.hear(operation)
        elif kind == bus.ANSWERS:
            self.replies.deliver(operation[1], bus.batch_at(parts, operation[2]), operation[3])
        elif kind == bus.FENCED:
            self.moves.fenced(*operation[1:])
        elif kind == bus.OPENED:
            self.moves.opened(*operation[1:])
        else:
            self.delivery.hear(link.index, operation)

    def break_off(self, operation: list[Any], error: Exception) -> None:
        """Handle a bug of ours in an operation: end the consumer's connection, or just log it if there is none."""
        consumer = self.delivery.consumers.get(operation[1]) if operation[0] == bus.DELIVER else None
        if consumer is None:
            log.error("operation of a shard failed", operation=operation[0], exc_info=error)
        else:
            consumer.channel.broken(error)

    # Turns and time

    def finish_turn(self) -> list[tuple[int, list[Any]]]:
        """Write confirms and close the outgoing turns. Return (shard, multipart) pairs to send."""
        self.turns += 1
        confirming, self.confirming = self.confirming, {}
        for channel in confirming:
            if not channel.closing:
                channel.write_confirms()
        if self.gates.claims.open:
            self.gates.claims.settle()
        turns = []
        for link in self.links:
            while not link.absent and (frames := link.close_turn(self.topology.version, self.now)) is not None:
                turns.append((link.index, frames))
        return turns

    def clock(self) -> float:
        """Return `now`: seconds of the machine's monotonic clock."""
        return self.now

    def time_us(self) -> int:
        """Return `now` in microseconds since 1970."""
        return int((self.now + self.began) * 1_000_000)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` at a recheck after so many seconds."""
        self.timers.append((self.now + seconds, action))

    def recheck(self) -> None:
        """Run timers, drip, and poll everything that a lost broadcast may have left waiting; called often."""
        for chore in self.rechecks():
            chore()

    def rechecks(self) -> tuple[Callable[[], None], ...]:
        """Return the chores of `recheck`, in order."""
        return (
            self.run_due, self.outputs.look, self.look_at_unfinished, self.drip, self.gates.recheck_queues,
            self.early.look, self.look_at_pressure, self.recheck_others, self.tell_of_metered, self.look_at_holds,
            self.forget_orphans, self.take_late_closes, self.delivery.forget_holders, self.write_counters,
        )  # fmt: skip

    def run_due(self) -> None:
        """Run the timers that are due."""
        due = [action for time, action in self.timers if time <= self.now]
        self.timers = [(time, action) for time, action in self.timers if time > self.now]
        for action in due:
            action()

    def look_at_unfinished(self) -> None:
        """Poll the connections with unfinished bodies."""
        self.unfinished.look(self.now)

    def drip(self) -> None:
        """Read a little from paused connections."""
        self.throttle.drip(self.now)

    def look_at_pressure(self) -> None:
        """Stop or free vhosts over their guarantee; routes pass other gates then."""
        if self.gates.pressure.look(self.gates.freed):
            self.reroute()

    def recheck_others(self) -> None:
        """Poll gates other than those of queues."""
        self.gates.recheck_others(self.now)

    def look_at_holds(self) -> None:
        """Move held channels up and down their ladders."""
        self.escalations.look(self.now)

    def forget_orphans(self) -> None:
        """Remove detached channels that have published everything."""
        for orphan in [orphan for orphan in self.orphans if not orphan.inbox]:
            del self.orphans[orphan]
            self.quotas.keep(orphan.connection, -ORPHAN_OCTETS)

    def tell_of_metered(self) -> None:
        """Publish events about limited rates and paced queues that begin or cease to hold channels."""
        begun, over = self.gates.metered.changed(self.now)
        for held in begun:
            self.events.tell(metered_facts(held, True, self.now), self.now + self.began)
        for held in over:
            self.events.tell(metered_facts(held, False, self.now), self.now + self.began)

    def parked_in_memory(self) -> int:
        """Return the parked bytes that are not on disk."""
        return self.throttle.parked_octets - (0 if self.spool is None else self.spool.held)

    def tick(self) -> None:
        """Run the chores of each second, such as heartbeats and deadlines."""
        for chore in self.ticks():
            chore()

    def ticks(self) -> tuple[Callable[[], None], ...]:
        """Return the chores of `tick`, in order."""
        return self.tick_connections, self.look_at_patience, self.look_at_counting, self.tell_again, self.early.tick

    def tick_connections(self) -> None:
        """Enforce deadlines and heartbeats of all connections."""
        for connection in list(self.connections.values()):
            connection.tick(self.now)

    def look_at_patience(self) -> None:
        """Close channels that keep deliveries unacked, or a transaction open, for too long."""
        self.patience.tick(self.now)

    def look_at_counting(self) -> None:
        """Stop counting publishes by route once no operator asks for the counts."""
        self.routes.look_at_counting(self.now)

    def tell_again(self) -> None:
        """Notify clients of a changed cause, and refresh reasons."""
        self.throttle.tell_again(self.now)

    def has_place(self) -> bool:
        """Whether this incarnation owns the gauges of its index: a predecessor may still write them."""
        return self.gauges.process_read("acceptor", self.index).incarnation in (0, self.incarnation)

    def write_counters(self) -> None:
        """Write the counters into the gauges if those are this incarnation's. Once all shards are up, clear the claims
        of its predecessor.
        """
        if not self.has_place():
            return
        for link in self.links:
            link.begin_counting()
        if self.loaded and all(self.links[shard].up for shard in self.topology.shards):
            self.gates.claims.succeed()
        self.gauges.counters_write(
            "acceptor", self.index, len(self.connections), self.open_channels,
            len(self.throttle.held), self.throttle.parked_octets, len({*self.throttle.paused, *self.unread.since}),
            self.published_total, self.delivery.delivered_total, self.confirmed_total, self.turns,
            len(self.throttle.ignoring),
            *[*self.escalations.counters(), self.gates.wakeups.lost, self.headcount.refused],
        )  # fmt: skip

    def shut_down(self) -> None:
        """Close every open connection: the broker shuts down."""
        for connection in list(self.connections.values()):
            if connection.expected is None and not connection.closing:
                connection.close(forced("broker forced connection closure with reason 'shutdown'"))
