"""Invariants of limits over several queues, and of gates that open with time."""

from __future__ import annotations

from typing import Any

from acceptor.core import AcceptorCore
from acceptor.gates.deadline_queue import DeadlineQueue
from acceptor.gates.gate import Gate
from acceptor.gates.metered import HELD_AFTER, INTERVAL, Wait
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.rates import SECOND, RateGate
from acceptor.gates.rounds import PATIENCE_SECONDS, Rounds
from penstock.limits.watermarks import overshoot_of
from shard.queue.queue_state import QueueState
from tests.simulator.joined.node import Node
from tests.simulator.policies import LONGEST_BURST


def is_metered(gate: object) -> bool:
    """Whether a gate opens with time."""
    return isinstance(gate, RateGate) or (isinstance(gate, QueueGate) and gate.pace is not None)


def is_shut(gate: Gate) -> bool:
    """Whether channels have a reason to wait at a gate once everything has come to rest."""
    return gate.is_saturated() or (is_metered(gate) and min(gate.room()) <= 0)


def gives_others_time(gate: Gate) -> bool:
    """Whether a gate briefly holds channels that have had their share, until others have theirs."""
    rounds = gate.rounds if isinstance(gate, QueueGate) else None
    if not isinstance(rounds, Rounds) or rounds.held_since is None:
        return False
    return rounds.clock() < rounds.held_since + PATIENCE_SECONDS


def is_behind_commit(gate: Gate) -> bool:
    """Whether a commit that needs more room is first in a gate's line: no channel goes before that commit."""
    return any(waiter.runs_at_gates() for waiter in gate.waiting)  # type: ignore[attr-defined]


def somebody_checks(core: AcceptorCore) -> None:
    """Check that every channel waiting at a gate that opens with time waits at one that is rechecked.

    Otherwise the channel waits for a shard to report that messages in flight to a paced queue are taken in, or that the
    queue is no longer saturated, or has moved. Commits that wait for a queue, and channels behind them, are let in when
    queues are rechecked, and so are channels at a gate with room behind one that another gate holds.
    """
    for channel in [
        channel for connection in core.state.connections.values() for channel in connection.channels.values()
    ]:
        for gate in channel.gates:
            elsewhere = isinstance(gate, QueueGate) and (
                gate.in_flight
                or gate.is_saturated()
                or core.state.gauges.flow_epoch(gate.slot)
                or is_behind_commit(gate)
                or gate.id in core.gates.away
            )
            if is_metered(gate) and not elsewhere and gate not in core.gates.metered.closed:
                assert isinstance(gate, QueueGate) and min(gate.room()) > 0, str(gate)


def only_just_waits(core: AcceptorCore, waiter: Any) -> bool:
    """Whether a channel waits only at gates that open with time, and so briefly that it has not been notified. One that
    was released and is back is notified at the next poll.
    """
    metered, shut = core.gates.metered, [gate for gate in waiter.gates if is_shut(gate)]
    return bool(shut) and all(
        is_metered(gate)
        and not gate.is_saturated()
        and core.state.now
        <= max(metered.since[gate, waiter] + HELD_AFTER, due(metered.pending, (gate, waiter)) + INTERVAL)
        for gate in shut
    )


def due(timers: DeadlineQueue[Wait], wait: Wait) -> float:
    """Return when the timer of a wait is due, in seconds; 0 if it has none."""
    return timers._due[timers._numbers[wait]][0] if wait in timers else 0.0


def nobody_is_remembered(core: AcceptorCore) -> None:
    """Check that nothing is kept about waiting channels once none has waited for a while."""
    metered = core.gates.metered
    assert (metered.closed, metered.since, metered.channels, metered.held) == ({}, {}, {}, {})
    assert not metered.pending and not metered.leaving and not metered.left
    escalations = core.holding.escalations
    assert not escalations.climbs and not escalations.drained and not core.holding.books.episodes.open


Ahead = dict[int, tuple[int, int]]
"""By bucket, how far in the future it may be full again, in nanoseconds: for its messages, and for its bytes."""


def rates_hold(node: Node, largest: int, count: int, nbytes: int, known: Ahead) -> None:
    """Check that nothing exceeds a rate by more than its burst, and a message of `largest` bytes if bytes count.

    A commit of each acceptor, with `count` messages and `nbytes`, may come on top: it goes when the burst is unused.
    A changed rate keeps the debt of the earlier one: `known` has the largest allowance of each bucket so far.
    """
    acceptors = len(node.acceptors)
    now = round(node.now * 1_000_000) * 1000
    for _, process in node.running_acceptors():
        for gate in process.core.gates.rates.by_bucket.values():
            (rate, bytes_rate), (depth, bytes_depth) = gate.rates, gate.depths
            full_at, bytes_full_at = node.gauges.bucket_full_at(gate.bucket, now)
            ahead = depth + acceptors * count * SECOND // rate if rate else 0
            bytes_ahead = bytes_depth + (largest + acceptors * nbytes) * SECOND // bytes_rate if bytes_rate else 0
            most, most_bytes = known.get(gate.bucket, (0, 0))
            known[gate.bucket] = most, most_bytes = max(most, ahead), max(most_bytes, bytes_ahead)
            assert not rate or full_at - now <= most, str(gate)
            assert not bytes_rate or bytes_full_at - now <= most_bytes, str(gate)


def most_rated(queue: QueueState, seconds: float) -> float | None:
    """Return how many messages may have entered a queue in that time; None if the queue has no rate of messages."""
    rate = queue.features.max_rate
    return None if rate is None else rate * (seconds + LONGEST_BURST / SECOND) + 1


def most_paced(queue: QueueState, acceptors: int, seats: int) -> int | None:
    """Return how deep producers may make a paced queue: all `seats` but one may have an acceptor's share of the
    overshoot in flight.

    None if the queue is not paced, or its target is not fixed.
    """
    depth = queue.features.pace_depth
    if depth is None or queue.features.pace_wait is not None:
        return None
    return depth + (seats - 1) * max(2 * overshoot_of(depth) // acceptors, 1)
