"""The ladders of held channels: how long each is held before a stronger measure, by the terms of the gate holding it.

      rung ──(its time is up, and the queue is full)──▶ the next one
      any rung ──(some of its parked messages are admitted)──▶ the first one
      reject ──(the queue has room)──▶ the first one, or free

Time counts only while the queue is full. A channel climbs one rung at a time, however much time has passed, and each
rung takes effect. The rungs are those of `penstock.limits.ladder`. Times are seconds of the caller's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from acceptor.clients.parked import ParkedRun
from acceptor.gates.deadline_queue import DeadlineQueue
from acceptor.gates.gate import UNLIMITED
from acceptor.gates.pools import itself
from acceptor.gates.queue_gate import QueueGate
from acceptor.holding.observer import HoldObserver
from penstock.amqp.errors import amqp_error
from penstock.limits.ladder import (
    CLOSE_CHANNEL,
    CLOSE_CONNECTION,
    HOLD_OFF,
    PARK,
    PAUSE,
    REJECT,
    RUNGS,
    WITHHOLD,
    Ladder,
    Rung,
)
from penstock.node.logs import get_logger
from penstock.text.durations import shown

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.hold import Hold
    from acceptor.clients.state import AcceptorState
    from acceptor.gates.gate import Gate
    from acceptor.holding.books import Books
    from acceptor.holding.event_log import EventLog
    from acceptor.routing.gates import Gates

log = get_logger()

# Rungs that hold, with the parking budgets that may be used up on them; None: as the means say.
HOLDING: dict[str, int | None] = {WITHHOLD: 16, PARK: None, PAUSE: 0}
# The ladder of a channel whose publishes are to be refused at once.
REFUSED = Ladder((Rung(REJECT, None),))
# Bounds of the wait that is suggested with a refused message (`x-flow-wait`), in seconds.
WAIT_MIN, WAIT_MAX = 0.1, 60.0


class Climb:
    """The place of a channel on its ladder: rung `at` (-1 before the first one), since when, messages refused there.

    `began` is when the channel was at the start of the ladder last.
    """

    __slots__ = ("at", "began", "gate", "ladder", "refused", "since")

    def __init__(self, gate: QueueGate, ladder: Ladder, now: float) -> None:
        self.gate = gate
        self.ladder = ladder
        self.refused = 0
        self.restart(now)

    def restart(self, now: float) -> None:
        """Start on the first rung if that only holds, else before it: the next poll takes it."""
        self.at = 0 if self.ladder.rungs[0].name in HOLDING else -1
        self.since = self.began = now

    @property
    def rung(self) -> str:
        """The name of the present rung, of the first one before that."""
        return self.ladder.rungs[max(self.at, 0)].name

    @property
    def next(self) -> str | None:
        """The name of the next rung; None at the top."""
        rungs = self.ladder.rungs
        return rungs[self.at + 1].name if self.at + 1 < len(rungs) else None

    @property
    def seconds(self) -> float | None:
        """How long this rung lasts; None: for ever."""
        if self.at < 0:
            return 0.0
        return self.ladder.rungs[self.at].seconds if self.next is not None else None


class Escalations(HoldObserver):
    """The channels of an acceptor that are on a ladder. `counts` has how often each rung was reached, by name.

    `drained` has of each gate the time at which the first channel came to be on a ladder there, and the messages that
    had left the queue by then; `closed_at` when each connection last had a channel closed at a gate.
    """

    def __init__(self, acceptor: AcceptorState, gates: Gates, books: Books, events: EventLog) -> None:
        self.acceptor = acceptor
        self.gates = gates
        self.books = books
        self.events = events
        self.budget_changed: Callable[[ConnectionState], None] = lambda connection: None
        self.climbs: dict[ChannelState, Climb] = {}
        self.at_gates: dict[QueueGate, dict[ChannelState, None]] = {}
        self.due: DeadlineQueue[ChannelState] = DeadlineQueue()
        self.counts = dict.fromkeys(RUNGS, 0)
        self.refused_total = 0
        self.drained: dict[QueueGate, tuple[float, int]] = {}
        self.closed_at: dict[ConnectionState, dict[QueueGate, float]] = {}

    def forget(self, connection: ConnectionState) -> None:
        """Forget a connection that is gone; its channels have been ended."""
        self.closed_at.pop(connection, None)

    def counters(self) -> list[int]:
        """Return the counters for the gauges: of each rung in order, and of refused messages."""
        return [*self.counts.values(), self.refused_total]

    # On a ladder

    def held(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """Put a channel on the ladder of the gate that holds it."""
        self.begin(channel, hold.gate, hold.terms.ladder)

    def released(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """Take a channel off its ladder."""
        self.end(channel)

    def apply_terms(self, channel: ChannelState) -> None:
        """Have a held channel's ladder and parking budget be those of its terms, which may have changed."""
        if channel.hold is not None:
            self.begin(channel, channel.hold.gate, channel.hold.terms.ladder)
        self.budget_changed(channel.connection)

    def begin(self, channel: ChannelState, gate: Gate, ladder: Ladder) -> None:
        """Put a channel on the ladder of the gate that holds it, if that is another one than before. A refusal by last
        resort lasts until there is room.
        """
        full = itself(gate)
        known = self.climbs.get(channel)
        refused = known is not None and known.ladder is REFUSED and channel.refusing is full
        if known is not None and known.gate is full and (known.ladder == ladder or refused):
            return
        self.end(channel)
        if ladder and isinstance(full, QueueGate):
            climb = self.climbs[channel] = Climb(full, ladder, self.acceptor.now)
            self.at_gates.setdefault(full, {})[channel] = None
            self.watch(channel, climb)
            self.drained.setdefault(full, (self.acceptor.now, self.taken_out(full)))
            if climb.at == 0:
                self.counts[climb.rung] += 1

    def refuse(self, channel: ChannelState, full: QueueGate) -> None:
        """Have a queue refuse the publishes of a held channel until there is room, whatever its ladder says."""
        if channel.refusing is not full:
            self.begin(channel, full, REFUSED)
            self.step(channel, self.climbs[channel], self.acceptor.now)

    def end(self, channel: ChannelState) -> None:
        """Take a channel off its ladder: this gate does not hold it any more."""
        climb = self.climbs.pop(channel, None)
        if climb is None:
            return
        self.end_refusals(channel, climb)
        self.due.discard(channel)
        del self.at_gates[climb.gate][channel]
        if not self.at_gates[climb.gate]:
            del self.at_gates[climb.gate]
            self.drained.pop(climb.gate, None)

    def refuses(self, channel: ChannelState, gates: Sequence[Gate]) -> bool:
        """Whether publishes through these gates are refused to a channel. If the queue that refuses them has room, even
        for others only, it does not refuse them any longer.
        """
        full = channel.refusing
        if full is None or all(itself(gate) is not full for gate in gates):
            return False
        if full.is_full():
            return True
        self.admits(channel, self.climbs[channel], self.acceptor.now)
        channel.release_if_free()  # its own ladder may have no rung on which it is seen again
        return False

    def refused(self, channel: ChannelState, count: int) -> None:
        """Count refused publishes of a channel."""
        self.refused_total += count
        self.climbs[channel].refused += count

    def end_refusals(self, channel: ChannelState, climb: Climb) -> None:
        """Stop refusing the channel's publishes, and log how many were refused."""
        if channel.hold is not None:
            channel.hold.refusing = None
        if climb.refused:
            log.info("refused", messages=climb.refused, reason=str(climb.gate), **channel.whose())
            climb.refused = 0

    def admits(self, channel: ChannelState, climb: Climb, now: float) -> None:
        """The gate that holds a channel has room: put the channel back to the start of its ladder."""
        self.restart(channel, climb, now)
        self.end_refusals(channel, climb)
        self.apply_terms(channel)

    def progressed(self, channel: ChannelState) -> None:
        """Some parked messages of a channel were sent: it starts its ladder anew, unless its publishes are refused."""
        climb = self.climbs.get(channel)
        if climb is not None and channel.refusing is None:
            self.restart(channel, climb, self.acceptor.now)
            self.apply_terms(channel)

    def restart(self, channel: ChannelState, climb: Climb, now: float) -> None:
        """Put a channel back to the start of its ladder."""
        climb.restart(now)
        self.watch(channel, climb)

    def watch(self, channel: ChannelState, climb: Climb) -> None:
        """Schedule the check at the end of the channel's time on its rung."""
        if climb.next is not None and climb.seconds is not None:
            self.due.put(channel, climb.since + climb.seconds)

    def budgets(self, channel: ChannelState) -> int | None:
        """Return the parking budgets that a channel may use up before its socket is paused; None: as the means say."""
        climb = self.climbs.get(channel)
        return HOLDING.get(climb.rung) if climb is not None else None

    # Up

    def advance(self, now: float) -> None:
        """Restart the channels whose gate has room, and move those whose time is up to the next rung; called often."""
        for gate in [gate for gate in self.at_gates if not gate.is_full()]:
            for channel in list(self.at_gates.get(gate, ())):
                climb = self.climbs.get(channel)
                if climb is not None and climb.gate is gate:
                    self.admits(channel, climb, now)
                    channel.release_if_free()
        for channel in self.due.pop_due(now):
            climb = self.climbs.get(channel)
            if climb is None or climb.next is None or climb.seconds is None:
                continue
            if now >= climb.since + climb.seconds and climb.gate.is_saturated():
                self.step(channel, climb, now)
            else:
                self.watch(channel, climb)

    def step(self, channel: ChannelState, climb: Climb, now: float) -> None:
        """Move a channel to its next rung, and carry that out."""
        climb.at += 1
        climb.since = now
        if climb.rung == CLOSE_CHANNEL and climb.next is not None and self.was_closed(channel, climb):
            climb.at += 1
        self.watch(channel, climb)
        self.reached(channel, climb, channel.held_seconds())
        ACTIONS[climb.rung](self, channel, climb)

    def was_closed(self, channel: ChannelState, climb: Climb) -> bool:
        """Whether the channel came to be held within this rung's time after its connection had a channel closed there.

        The time that it took to climb the rungs before does not count: it may be longer.
        """
        closed, seconds = self.closed_at.get(channel.connection, {}).get(climb.gate), climb.seconds
        return closed is not None and seconds is not None and climb.began < closed + seconds

    def reached(self, channel: ChannelState, climb: Climb, held: float) -> None:
        """Count, log and publish that a channel has reached a rung after `held` seconds."""
        connection, rung = channel.connection, climb.rung
        self.counts[rung] += 1
        self.books.escalated(channel, climb.gate, rung)
        cause = climb.gate.describe()
        log.info("escalation", rung=rung, reason=cause.text, held_seconds=held, **channel.whose())
        self.events.publish(
            {
                "event": "escalation", "vhost": channel.access.vhost, "queue": cause.name, "rung": rung,
                "seconds": held, "connection": connection.id, "channel": channel.number,
                "client": connection.client.name, "user": connection.user, **cause.numbers,
            },
            self.acceptor.now + self.acceptor.origin.wall,
        )  # fmt: skip

    def state(self, channel: ChannelState) -> dict[str, Any] | None:
        """Return a channel's rung, the seconds on it, the next one and when that is due; None if it is on no ladder."""
        climb = self.climbs.get(channel)
        if climb is None:
            return None
        now, seconds = self.acceptor.now, climb.seconds
        return {
            "name": climb.rung,
            "seconds": round(now - climb.since, 3),
            "next": climb.next,
            "next_in": None if seconds is None else round(max(climb.since + seconds - now, 0.0), 3),
        }

    def hold(self, channel: ChannelState, climb: Climb) -> None:
        """Carry out a rung that only holds: apply its parking budget."""
        self.apply_terms(channel)

    def reject(self, channel: ChannelState, climb: Climb) -> None:
        """Refuse parked and further publishes for the queue, and give the confirms of messages that it has. A commit
        that waits for room is rolled back.
        """
        assert channel.hold is not None
        channel.hold.refusing = climb.gate
        climb.gate.release_withheld_of(channel)
        if channel.runs_at_gates():
            channel.fail(amqp_error(406, f"transaction rolled back, no room: {climb.gate}"))
            return
        channel.leave_gates()
        channel.pump(UNLIMITED)

    def close_channel(self, channel: ChannelState, climb: Climb) -> None:
        """Close the channel with 311, and remember that for `was_closed`."""
        before = self.closed_at.get(channel.connection, {})
        self.closed_at[channel.connection] = {
            **{gate: at for gate, at in before.items() if not gate.closed}, climb.gate: self.acceptor.now,
        }  # fmt: skip
        reason = self.reason(channel, climb)
        self.settle(channel, reason)
        channel.method = None
        channel.fail(amqp_error(311, reason))

    def close_connection(self, channel: ChannelState, climb: Climb) -> None:
        """Close the connection with 506. A next rung `hold-off` takes effect at once."""
        connection, text, held = channel.connection, self.reason(channel, climb), channel.held_seconds()
        for other in list(connection.channels.values()):
            self.settle(other, text)
        if climb.next == HOLD_OFF:
            climb.at += 1
            self.reached(channel, climb, held)
            self.hold_off(connection, climb.ladder, text)
        connection.fail(amqp_error(506, text))

    def hold_off(self, connection: ConnectionState, ladder: Ladder, text: str) -> None:
        """Have all acceptors refuse that user from that address for a while."""
        settings = self.acceptor.settings.hold_off
        asked = {
            "user": connection.user, "host": connection.client.host, "reason": text,
            "seconds": ladder.rungs[-1].seconds or settings.seconds, "most": settings.max_seconds,
            "forget": settings.forget_seconds,
        }  # fmt: skip
        self.acceptor.router_requests.append(("hold_off", asked, lambda result, error: None))

    def reason(self, channel: ChannelState, climb: Climb) -> str:
        """Return the reply text of a close: the gate, and how long it has held the channel."""
        return f"{climb.gate}; held for {shown(channel.held_seconds())}"

    def settle(self, channel: ChannelState, reason: str) -> None:
        """Before a channel ends: confirm the messages that queues have, and nack the parked ones if confirms are on."""
        parked = [item for item in channel.inbox if isinstance(item, ParkedRun)]
        if parked:
            messages = sum(run.count for run in parked)
            self.refused_total += messages
            log.info("refused", messages=messages, reason=reason, **channel.whose())
        if channel.confirms is None:
            return
        for queue_gate in self.gates.limited():
            queue_gate.release_withheld_of(channel)
        for run in parked:
            if run.tag:
                channel.confirms.complete(run.tag, run.count, True)
        channel.write_confirms()

    # The suggested wait

    def taken_out(self, gate: QueueGate) -> int:
        """Return how many messages have left a queue; 0 for a limit over several queues, where it is not known."""
        queue = self.acceptor.gauges.queue_read(gate.slot) if gate.id else None
        return queue.drained if queue is not None else 0

    def wait_at(self, gate: QueueGate) -> float:
        """Return the seconds after which there may be room, by the rate at which messages have left since the first
        channel was on a ladder there.
        """
        since, before = self.drained.get(gate, (self.acceptor.now, 0))
        rate = (self.taken_out(gate) - before) / max(self.acceptor.now - since, 0.001)
        above = gate.limits.marks.excess(*gate.depth())
        return min(max(above / rate, WAIT_MIN), WAIT_MAX) if rate > 0 else WAIT_MAX


ACTIONS: dict[str, Callable[[Escalations, ChannelState, Climb], Any]] = {
    **dict.fromkeys(HOLDING, Escalations.hold),
    REJECT: Escalations.reject,
    CLOSE_CHANNEL: Escalations.close_channel,
    CLOSE_CONNECTION: Escalations.close_connection,
}
