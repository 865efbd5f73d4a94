"""The state that all parts of an acceptor share: its place, the clock, the topology, links, connections, output.

It does nothing by itself. The shell sets the clock, the core reads the rest, and each part takes what it works on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from acceptor.clients.asking import Answer
from acceptor.clients.clock_origin import ClockOrigin
from acceptor.clients.counters import Counters
from acceptor.clients.prefetch import SharedPrefetch
from acceptor.clients.spool import Spool
from acceptor.clients.tracing import Tracing
from acceptor.links.shard_link import ShardLink
from acceptor.links.unacked_cy import Settlements
from penstock import bus
from penstock.batch.arena import Arena
from penstock.bus.operations_cy import Operation
from penstock.bus.to_shard import Request
from penstock.memory.gauges import Gauges
from penstock.settings import Settings
from penstock.telemetry.rows import Put, nowhere
from router.model.topology import Topology

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.connection_state import ConnectionState

RouterRequest = tuple[str, dict[str, Any], Callable[[Any, Any], None]]
"""Name, arguments, and the function that gets result and error."""


class AcceptorState:
    """The state of one incarnation of one acceptor.

    `now` is in seconds of the machine's monotonic clock, and `origin` says when that clock was at 0. `limbo` has
    settlements of queues that move; `sharing` has, by group, the keeper of the prefetch limit of a channel over several
    shards. `flush` writes the output of a connection: of those in `flush_first` before the turns leave, of `dirty`
    ones after. `confirming` are channels with confirms to write at the end of the turn. `turns` is the number of turns
    so far.
    """

    def __init__(self, index: int, incarnation: int, gauges: Gauges, settings: Settings, node_name: str) -> None:
        self.index = index
        self.incarnation = incarnation
        self.gauges = gauges
        self.settings = settings
        self.node_name = node_name
        self.now = 0.0
        self.origin = ClockOrigin()
        self.topology = Topology()
        self.links = [
            ShardLink(shard, gauges, index, settings.flow.pair_count, settings.flow.pair_bytes)
            for shard in range(gauges.shards)
        ]
        self.limbo = Settlements()
        self.arena: Arena | None = None
        self.spool: Spool | None = None
        self.record: Put = nowhere
        self.connections: dict[str, ConnectionState] = {}
        self.dirty: dict[ConnectionState, None] = {}
        self.flush_first: dict[ConnectionState, None] = {}
        self.confirming: dict[ChannelState, None] = {}
        self.router_requests: list[RouterRequest] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.flush: Callable[[ConnectionState], None] = lambda connection: None
        self.sharing: dict[int, SharedPrefetch] = {}
        self.counters = Counters()
        self.tracing = Tracing(index, settings.traces.ratio, self.clock, self.node_us)
        self.turns = 0
        self.last_group = 0

    @property
    def nowhere(self) -> int:
        """The index that consumers of a queue go by while it moves: that of no shard."""
        return len(self.links)

    def clock(self) -> float:
        """Return `now`: seconds of the machine's monotonic clock."""
        return self.now

    def wall(self) -> float:
        """Return `now` in seconds since 1970."""
        return self.now + self.origin.wall

    def time_us(self) -> int:
        """Return `now` in microseconds since 1970."""
        return int(self.wall() * 1_000_000)

    def node_us(self) -> int:
        """Return `now` in microseconds of the node's clock."""
        return int((self.now + self.origin.node) * 1_000_000)

    def behind(self) -> bool:
        """Whether the replica lacks changes of the topology; nothing may be routed by it then."""
        behind: bool = self.gauges.topology_version() > self.topology.version
        return behind

    def has_place(self) -> bool:
        """Whether this incarnation owns the gauges of its index: a predecessor may still write them."""
        return self.gauges.process_read("acceptor", self.index).incarnation in (0, self.incarnation)

    def channels(self) -> Iterator[ChannelState]:
        """All channels of all connections."""
        return (channel for connection in self.connections.values() for channel in connection.channels.values())

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedule a call after a number of seconds, or a little later."""
        self.timers.append((self.now + seconds, action))

    def run_due(self) -> None:
        """Run the timers that are due; called often."""
        due = [action for time, action in self.timers if time <= self.now]
        self.timers = [(time, action) for time, action in self.timers if time > self.now]
        for action in due:
            action()

    def send(self, shard: int, operation: Operation) -> None:
        """Send an operation to a shard that needs no answer."""
        self.links[shard].send(operation)

    def ask_at(self, shard: int, request: Request, resume: Callable[[Answer], None]) -> None:
        """Send a request to a shard; `resume` gets the answer."""
        self.links[shard].ask(request, lambda result, error, parts: resume(Answer(result, error, parts)))

    def next_connection(self) -> int:
        """The number of a connection."""
        self.counters.connections += 1
        return self.counters.connections

    def next_group(self, connection: ConnectionState) -> int:
        """A channel's number at shards: its connection's number before its own."""
        self.last_group += 1
        return connection.number << bus.GROUP_BITS | self.last_group & (1 << bus.GROUP_BITS) - 1

    def next_transaction(self) -> int:
        """The number of a transaction over several shards."""
        self.counters.transactions += 1
        return self.counters.transactions
