"""The flow decision for a queue that a turn touched: decided, written into the gauges, then announced.

**Theory of operation.** `decide` runs at the end of a turn, once for each queue touched. It records how near the depth
is to the marks and how far above them (`watch`), has `Saturation.update` decide, logs and records a change, writes the
gauge and, last of all, broadcasts the change to acceptors. A queue that is calm (`Saturation.is_calm`) skips all but
its growth and its gauge, so far below its marks flow control costs next to nothing.

**Invariant.** After `decide`, the gauge shows the decision, and `stopped` has exactly the saturated queues of this
shard. The gauge is written before the broadcast: an acceptor that receives an epoch finds a gauge that is at least as
new. While a queue is saturated its contents record departures (`contents.stop`), so withheld confirms can be released
as messages leave.

An unprivileged queue (router/authority/standing.py) stands aside: it never stops a producer. Beyond its marks its
contents are on disk (see `shard.queue.queue_state.window_of`), beyond `flow.unprivileged_limit` its oldest messages are
dropped; the log and events report both to its owner. A queue that is over its marks and fed by a binding that grants it
nothing (router/model/grants.py) is treated likewise, except that it does stop its other producers.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from penstock.flow.flow_events import INCIDENT_SECONDS
from penstock.flow.short_stops import ShortStops
from penstock.limits.watermarks import depth_of_mark
from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger
from penstock.settings.sections import FlowSettings
from shard.flow.events import Events
from shard.queue.dropping import DROPPING, NO, DropEvent, Dropping
from shard.queue.saturation import Stop

if TYPE_CHECKING:
    from shard.queue.queue_state import QueueState

log = get_logger()

OPEN_MOST = 4096
"""The most stops whose beginning is kept over a restart of the node."""


class Flow:
    """Decides for the queues of one shard.

    `broadcast` takes a queue's id, whether it is saturated, and the epoch; `feeder` returns why a binding on the way to
    a queue grants it nothing, None where all grant it everything. `stopped` are the saturated queues, by id. `earlier`
    are stops that were not over when the node ended, or that came with a move, by queue id, until the queues are known.
    """

    def __init__(
        self, gauges: Gauges, index: int, events: Events, settings: FlowSettings,
        broadcast: Callable[[int, bool, int], None], feeder: Callable[[int], str | None],
    ) -> None:  # fmt: skip
        self.gauges = gauges
        self.index = index
        self.events = events
        self.near_percent = settings.near_percent
        self.deadlock = settings.deadlock
        self.lend_percent = settings.lend_percent
        self.incidents: list[dict[str, Any]] = []
        self.short_stops = ShortStops()
        self.broadcast = broadcast
        self.feeder = feeder
        self.stopped: dict[int, QueueState] = {}
        self.earlier: dict[int, Stop] = {}

    def begin(self, queue: QueueState, now: int) -> None:
        """The shard opens a queue, in any incarnation; a stop that was not over continues.

        A later incarnation of the shard finds its predecessor's state, and what the queue is lent, in the gauges. After
        a restart of the node the stop is in `earlier`, as it is for a queue that moved here and that the predecessor
        had not opened.
        """
        stop = self.earlier.get(queue.id)
        before = self.gauges.queue_read(queue.slot)
        if before is not None and before.queue_id == queue.id:
            queue.usage.had_consumers = before.consumers > 0
            queue.usage.consumed = before.consumers > 0 or before.counters.delivered > 0
            stop = Stop(before.saturated_since_us, before.peak_count, before.peak_bytes) if before.saturated else None
            if before.lent_count or before.lent_bytes:
                queue.saturation.keep_lent(before.lent_count, before.lent_bytes, now)
        if stop is not None:
            queue.saturation.continue_stop(stop)
        self.take_over(queue, now)

    def take_over(self, queue: QueueState, now: int) -> None:
        """Adopt a queue that lives here from now on, in its slot of the gauges. If it is stopped it stays so."""
        self.gauges.queue_open(queue.slot, queue.id, queue.vhost, queue.name, queue.usage.counted_since, self.index)
        queue.saturation.epoch = self.gauges.flow_epoch(queue.slot)
        if queue.saturation.lent is not None:
            self.gauges.queue_write_lent(queue.slot, *queue.saturation.lent_beyond())
        stop = queue.saturation.stop()
        if stop is not None:
            queue.contents.stop(True)
            self.gauges.queue_write_peak(queue.slot, stop.peak_count, stop.peak_bytes)
            self.stopped[queue.id] = queue
            self.log_flow(queue, now, "queue still stopped", stopped_seconds=round(max(now - stop.since, 0) / 1e6, 3))

    def forget(self, id: int) -> None:
        """A queue no longer lives here: it is not among the stopped ones."""
        self.stopped.pop(id, None)

    def decide(self, queue: QueueState, now: int) -> None:
        """Decide at the end of a turn that touched the queue."""
        state, exemption, aside = queue.saturation, queue.exemption, queue.stands_aside
        if not queue.has_marks and state.is_free() and queue.dropping is NO and not exemption.yields:
            self.write_gauge(queue, aside)
            return
        count, nbytes = queue.depth, queue.depth_bytes
        if queue.has_marks:
            if not aside and not exemption.lagging and state.is_calm(count, nbytes, now):
                state.measure_growth(count, now)
                self.write_gauge(queue, aside)
                return
            self.watch(queue, now, aside)
        since, over, peak, lent = state.since, state.over, (state.peak_count, state.peak_bytes), state.lent
        changed = state.update(count, nbytes, now, aside)
        if peak != (state.peak_count, state.peak_bytes):
            self.gauges.queue_write_peak(queue.slot, state.peak_count, state.peak_bytes)
        if lent is not None and state.lent is None:
            self.gauges.queue_write_lent(queue.slot, 0, 0)
        if changed:
            queue.contents.stop(state.saturated)
            exemption.lagging &= state.saturated
            self.record_change(queue, since, now)
        elif queue.is_unprivileged and state.over and not over:
            self.report_to_owner("spills", "unprivileged queue spills", queue)
        if queue.dropping is Dropping.BEGUN:
            queue.dropping = DROPPING.after(queue.dropping, DropEvent.REPORT)
            self.report_to_owner("drops", "unprivileged queue drops its oldest messages", queue)
        if exemption.yields and not state.over:
            exemption.yields = False
        self.write_gauge(queue, queue.stands_aside)
        if changed:
            self.broadcast(queue.id, state.saturated, state.epoch)

    def watch(self, queue: QueueState, now: int, aside: bool) -> None:
        """Record how near a queue with marks is to them, and how far above."""
        state, depth, nbytes = queue.saturation, queue.depth, queue.depth_bytes
        state.measure_growth(depth, now)
        if state.comes_near(depth, nbytes, self.near_percent) and not aside:
            full_in = state.full_in(depth, nbytes)
            self.events.record("near", queue)
            self.log_flow(queue, now, "queue near", full_in=None if full_in is None else round(full_in, 1))
        if aside:
            state.set_marks(state.marks, now)
        elif self.is_fed(queue) or queue.exemption.lagging:
            state.exclude_depth(now)
        elif state.exceeds(depth, nbytes, now):
            self.gauges.queue_write_over(queue.slot, state.over_count, state.over_bytes)

    def is_fed(self, queue: QueueState) -> bool:
        """Whether a queue is over its marks and receives messages that they do not hold."""
        state, exemption = queue.saturation, queue.exemption
        over = state.marks.saturated(state.over, queue.depth, queue.depth_bytes)
        fed, exemption.fed = exemption.fed, self.feeder(queue.id) if over else None
        if exemption.fed is not None and fed is None:
            self.report_to_owner("spills", "unprivileged queue spills", queue)
        return exemption.fed is not None

    def record_change(self, queue: QueueState, since: int, now: int) -> None:
        """Record a change of a queue's flow: events, incidents, log. The state before had lasted since `since`."""
        state, seconds = queue.saturation, max(now - since, 0) / 1e6
        if state.saturated:
            self.stopped[queue.id] = queue
            self.events.record("stop", queue)
            self.log_flow(queue, now, "queue stop", open_seconds=round(seconds, 3), epoch=state.epoch)
        else:
            del self.stopped[queue.id]
            peaks = {"peak_count": state.peak_count, "peak_bytes": state.peak_bytes}
            self.events.record("resume", queue, seconds=seconds, **peaks)
            if seconds >= INCIDENT_SECONDS:
                self.incidents.append(_incident(queue, since, now))
            else:
                self.short_stops.add(_incident(queue, since, now), now / 1e6)
            self.log_flow(queue, now, "queue resume", stopped_seconds=round(seconds, 3), epoch=state.epoch, **peaks)

    def deadlocked(self, queue: QueueState, circle: str, action: str, now: int) -> None:
        """Record that the queue's producers wait in a circle; `action` is its remedy. The incident is recorded at once,
        because it may never be over.
        """
        self.events.record("deadlock", queue, circle=circle, action=action)
        state = queue.saturation
        since = state.since if state.saturated else now
        found = {"kind": "deadlock", "cause": circle, "actions": {action: 1}}
        self.incidents.append(_incident(queue, since, now) | found)

    def lend(self, queue: QueueState, now: int) -> bool:
        """Lend the queue as much room as its consumers may need to go on; False if it has been lent all that it may
        be.
        """
        state, contents = queue.saturation, queue.contents
        in_hand = contents.unacked, contents.unacked_whole
        if not state.lend(queue.depth, queue.depth_bytes, *in_hand, self.lend_percent, now):
            return False
        assert state.lent is not None
        self.gauges.queue_write_lent(queue.slot, *state.lent_beyond())
        self.log_flow(queue, now, "queue lends",
                      lent_messages=depth_of_mark(state.lent.stop_count, state.marks.stop_count),
                      lent_bytes=depth_of_mark(state.lent.stop_bytes, state.marks.stop_bytes))  # fmt: skip
        return True

    def open_stops(self, now: int, seconds: float) -> list[dict[str, Any]]:
        """The stops that are not over and have lasted so long; the oldest `OPEN_MOST` if there are more."""
        last = now - int(seconds * 1e6)
        queues = [queue for queue in self.stopped.values() if queue.saturation.since <= last]
        return [
            {"queue_id": queue.id, "vhost": queue.vhost, "queue": queue.name, "since": queue.saturation.since,
             "peak_count": queue.saturation.peak_count, "peak_bytes": queue.saturation.peak_bytes}
            for queue in nsmallest(OPEN_MOST, queues, key=lambda queue: queue.saturation.since)
        ]  # fmt: skip

    def log_flow(self, queue: QueueState, now: int, event: str, **more: Any) -> None:
        """Log a change of a queue's flow, with depth and marks."""
        marks = queue.limits.marks
        log.info(event, queue=queue.name, vhost=queue.vhost,
                 messages=depth_of_mark(queue.depth, marks.stop_count),
                 bytes=depth_of_mark(queue.depth_bytes, marks.stop_bytes), **more)  # fmt: skip

    def report_to_owner(self, event: str, words: str, queue: QueueState) -> None:
        """Report to the owner that an unprivileged queue is over its marks, or its limit."""
        fed = queue.exemption.fed
        why = str(queue.features.unprivileged_reason) if fed is None else fed
        self.events.record(event, queue, why=why)
        log.warning(words, queue=queue.name, vhost=queue.vhost, why=why, connection=queue.owner,
                    depth=queue.depth, bytes=queue.depth_bytes)  # fmt: skip

    def write_gauge(self, queue: QueueState, aside: bool) -> None:
        """Write the queue's row of the gauges."""
        contents, state, marks = queue.contents, queue.saturation, queue.limits.marks
        unburied, exemption, totals = queue.unburied, queue.exemption, contents.totals
        consumers = len(queue.ring.consumers) or queue.is_left()  # the next incarnation must know that it had consumers
        self.gauges.queue_write(
            queue.slot, contents.ready, contents.unacked, contents.ready_bytes, contents.unacked_bytes,
            totals.published, totals.delivered, totals.acked, totals.redelivered, totals.dropped,
            consumers, state.epoch, state.saturated, state.since,
            marks.stop_count, marks.resume_count, marks.stop_bytes, marks.resume_bytes, aside,
            unburied.count, unburied.whole, totals.published_bytes, totals.delivered_bytes,
            contents.ready_whole + contents.unacked_whole, exemption.lagging or exemption.fed is not None,
            queue.features.reserve if queue.has_marks else 0,
        )  # fmt: skip


def _incident(queue: QueueState, since: int, now: int) -> dict[str, Any]:
    """A stop that is over, or its state so far: its cause and peaks; times in seconds.

    `begun` and `ended` become wall time where they are written to the file; `since_us` stays (`shard.flow.open_stops`).
    """
    state, marks = queue.saturation, queue.limits.marks
    causes = [
        *([f"{state.peak_count} of {marks.stop_count} messages"] if state.peak_count > marks.stop_count > 0 else []),
        *([f"{state.peak_bytes} of {marks.stop_bytes} bytes"] if state.peak_bytes > marks.stop_bytes > 0 else []),
    ]
    return {
        "kind": "queue",
        "vhost": queue.vhost,
        "queue": queue.name,
        "cause": "; ".join(causes) or "its marks were changed",
        "begun": min(since, now) / 1e6,
        "ended": now / 1e6,
        "peak_count": state.peak_count,
        "peak_bytes": state.peak_bytes,
        "overshoot_count": max(state.peak_count - marks.stop_count, 0) if marks.stop_count else 0,
        "overshoot_bytes": max(state.peak_bytes - marks.stop_bytes, 0) if marks.stop_bytes else 0,
        "epoch": state.epoch,
        "since_us": since,
    }
