"""The course of holds, as rows of telemetry: an episode is one channel held by one gate.

      stop ──▶ park (once, with the first publish that waits) ──▶ pause ⇄ unpause, escalate ──▶ resume

The row `resume` ends an episode and sums it up. When another gate holds the channel from then on, another one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.clients.channel_stage import OPEN
from acceptor.clients.flow_compliance import AFTER_ANSWER_COUNT
from acceptor.clients.pauses import HELD
from acceptor.gates.gate import Gate
from acceptor.gates.pools import itself
from acceptor.holding.observer import HoldObserver
from acceptor.holding.peaks import Peak, Peaks
from penstock.telemetry.schema import FLOW, Event, Outcome

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.hold import Hold
    from acceptor.clients.state import AcceptorState

UNTOLD: dict[str, Any] = {
    "rung": None, "stopped_ms": None, "peak_depth": None, "parked": None, "parked_bytes": None, "after_stop": None,
    "notified_by": None, "obeyed": None, "paused_ms": None, "outcome": None,
}  # fmt: skip
"""The columns that only some rows fill."""


class Episode:
    """An episode that is not over. Times are seconds of the core's clock.

    `parked` and `parked_bytes` are the publishes that were parked in it, `after_stop` those that came in it, `paused`
    how long the socket was paused before `paused_since` (None: not paused).
    """

    __slots__ = ("after_stop", "gate", "parked", "parked_bytes", "paused", "paused_since", "peak", "since")

    def __init__(self, gate: Gate, peak: Peak, now: float, paused: bool) -> None:
        self.gate = gate
        self.since = now
        self.peak = peak
        self.parked = self.parked_bytes = 0
        self.after_stop = 0
        self.paused = 0.0
        self.paused_since = now if paused else None

    def unpause(self, now: float) -> None:
        """Add the pause that ends, if there is one."""
        if self.paused_since is not None:
            self.paused += now - self.paused_since
            self.paused_since = None


class Episodes(HoldObserver):
    """The episodes of an acceptor's channels that are not over. The rows go to `AcceptorState.record`."""

    def __init__(self, acceptor: AcceptorState) -> None:
        self.acceptor = acceptor
        self.open: dict[ChannelState, Episode] = {}
        self.peaks = Peaks()

    def held(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """A gate holds a channel from now on: begin an episode, and end that of another gate."""
        if channel in self.open:
            self.end(channel, "other-cause")
        paused = bool(channel.connection.pauses & HELD)
        gate = itself(hold.gate)
        self.open[channel] = Episode(gate, self.peaks.begin(gate), now, paused)
        self.record(channel, gate, "stop")

    def released(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """Nothing holds a channel any more: end its episode."""
        self.end(channel, "free" if channel.stage is OPEN else "closed")

    def came(self, channel: ChannelState, count: int) -> None:
        """Count publishes that came on a channel, if it is held."""
        if channel in self.open:
            self.open[channel].after_stop += count

    def parked(self, channel: ChannelState, count: int, nbytes: int) -> None:
        """Count publishes that are parked on a channel, if it is held."""
        episode = self.open.get(channel)
        if episode is not None:
            first = not episode.parked
            episode.parked += count
            episode.parked_bytes += nbytes
            if first:
                self.record(channel, episode.gate, "park")

    def paused(self, connection: ConnectionState) -> None:
        """A socket is read by the drip from now on."""
        for channel, episode in self.of(connection):
            episode.paused_since = self.acceptor.now
            self.record(channel, episode.gate, "pause")

    def unpaused(self, connection: ConnectionState) -> None:
        """A socket is read as usual from now on."""
        for channel, episode in self.of(connection):
            episode.unpause(self.acceptor.now)
            self.record(channel, episode.gate, "unpause")

    def of(self, connection: ConnectionState) -> list[tuple[ChannelState, Episode]]:
        """Return the held channels of a connection, with their episodes."""
        channels = connection.channels.values()
        return [(channel, self.open[channel]) for channel in channels if channel in self.open]

    def escalated(self, channel: ChannelState, gate: Gate, rung: str) -> None:
        """A channel has reached a rung of its ladder."""
        self.record(channel, gate, "escalate", rung=rung)

    def end(self, channel: ChannelState, outcome: Outcome) -> None:
        """End the episode of a channel that its gate does not hold any more."""
        episode = self.open.pop(channel, None)
        if episode is None:
            return
        now = self.acceptor.now
        self.peaks.end(episode.gate, episode.peak)
        episode.unpause(now)
        self.record(
            channel, episode.gate, "resume",
            stopped_ms=round((now - episode.since) * 1000), peak_depth=episode.peak.depth, parked=episode.parked,
            parked_bytes=episode.parked_bytes, after_stop=episode.after_stop, notified_by=notified_by(channel),
            obeyed=obeyed(channel), paused_ms=round(episode.paused * 1000), outcome=outcome,
        )  # fmt: skip

    def update_peaks(self) -> None:
        """Update the peak depths; called once a second."""
        self.peaks.update()

    def record(self, channel: ChannelState, gate: Gate, action: Event, **more: Any) -> None:
        """Record a row of telemetry."""
        acceptor, connection, cause = self.acceptor, channel.connection, gate.describe()
        queue = acceptor.topology.queue_by_id(cause.queue_id) if cause.queue_id else None
        acceptor.record(
            FLOW,
            acceptor.time_us(),
            {
                "vhost": channel.access.vhost,
                "queue": cause.queue or cause.facts.get("name"),
                "shard": cause.shard if queue is None else queue.shard,
                "cause": cause.column,
                "depth": cause.depth.depth,
                "bytes": cause.depth.size,
                "mark": cause.depth.mark,
                "flow_epoch": cause.flow_epoch,
                "acceptor": acceptor.index,
                "connection": connection.id,
                "channel": channel.number,
                "user": connection.user,
                "product": connection.client.said("product"),
                "action": action,
                "reason": cause.text,
                "exchange": None if channel.route is None else channel.route.exchange,
                **UNTOLD,
                **more,
            },
        )


def notified_by(channel: ChannelState) -> str:
    """Return how the client was notified: `flow`, `blocked`, `flow+blocked` or `none`."""
    return "+".join(channel.notified_by()) or "none"


def obeyed(channel: ChannelState) -> bool | None:
    """Whether the client stopped on Channel.Flow; None if none was sent, or it has not answered yet."""
    if not channel.notices.flow:
        return None
    if channel.connection.notices.ignores_flow:
        return False
    return None if channel.notices.compliance.due else channel.notices.compliance.count <= AFTER_ANSWER_COUNT
