"""Invariants of an acceptor at rest: nothing is in flight, and every channel that waits has a reason to."""

from __future__ import annotations

from acceptor.amqp.channel import Channel
from acceptor.clients.channel_stage import DETACHED
from acceptor.clients.channel_state import ChannelState
from acceptor.core import AcceptorCore
from acceptor.gates.claims import NO_PLACE
from acceptor.gates.fair import SAVED_ROUNDS
from acceptor.gates.gate import SHARE, SHARE_BYTES, UNLIMITED, Gate
from acceptor.gates.lane_line import LaneLine
from acceptor.gates.pools import Pool, itself
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.rates import RateGate
from acceptor.holding.channel_flow import acknowledges
from acceptor.transactions.transaction import Piece, Transaction
from tests.simulator.invariants.metered import gives_others_time, is_behind_commit, is_shut, only_just_waits
from tests.simulator.joined.node import Node
from tests.simulator.joined.processes import Acceptor


def nobody_waits_in_vain(core: AcceptorCore) -> None:
    """Check that nothing is in flight, and every channel that waits has a reason to."""
    nothing_is_in_flight(core)
    for queue_gate in core.gates.limited():
        assert not queue_gate.waiting or is_blocked(queue_gate) or waits_elsewhere(queue_gate), str(queue_gate)
        assert not queue_gate.withheld or queue_gate.is_saturated(), str(queue_gate)
        assert not queue_gate.warned or queue_gate.is_saturated(), str(queue_gate)
        for channel in queue_gate.warned:
            assert isinstance(channel, Channel) and channel.notices.early is queue_gate
            assert channel.connection.channels[channel.number] is channel and channel.held_by is None
            assert not acknowledges(channel.connection)
    connections = core.state.connections.values()
    for each in [*core.orphans.channels, *(c for connection in connections for c in connection.channels.values())]:
        assert isinstance(each, Channel)
        has_a_reason(core, each)


def nothing_is_in_flight(core: AcceptorCore) -> None:
    """Check that every turn of an acceptor has been reported by its shard."""
    for link in core.links:
        assert link.in_flight.is_empty() and not link.in_flight.load.count_weight
        unreported = link.unreported_bytes, link.turn.contents.load.count, len(link.sent), len(link.requests)
        assert unreported == (0, 0, 0, 0), unreported
        assert not link.waiting or link.is_saturated()
    for queue_gate in core.gates.limited():
        assert (queue_gate.in_flight, queue_gate.in_flight_bytes) == (0, 0), str(queue_gate)


def has_a_reason(core: AcceptorCore, channel: Channel) -> None:
    """Check that a channel runs nothing but what waits at gates, and has a reason if it waits."""
    assert channel.running is None or channel.runs_at_gates()
    if channel.runs_at_gates():
        assert lacks_room(channel) or is_behind_another(channel)
    elif channel.inbox or channel.gates or channel.held_by is not None:
        refused = channel.refusing is not None and channel.refusing.is_full()
        assert any(map(is_blocked, channel.gates)) or refused or (channel.withheld and not channel.inbox)
        notified = channel.held_by is not None or not any(map(is_shut, channel.gates))
        assert channel.stage is DETACHED or notified or only_just_waits(core, channel)


def nothing_is_claimed(node: Node, index: int, acceptor: Acceptor) -> None:
    """Check that the claims that acceptors share, including those of dead ones, have nothing in flight."""
    gates = acceptor.core.gates
    lines = [line for each in gates.queue_gates.values() if isinstance(line := each.lane_line, LaneLine)]
    claiming: list[Pool | LaneLine] = [*gates.pools.by_limit.values(), *lines]
    for counted in claiming:
        claim = counted.claim
        assert (counted.in_flight, counted.in_flight_bytes, claim.count, claim.nbytes) == (0, 0, 0, 0)
        if claim.place != NO_PLACE:
            assert node.gauges.claim(claim.place, index, acceptor.incarnation, 0, 0) == (0, 0)


def no_share_is_remembered_in_vain(core: AcceptorCore) -> None:
    """Check that no share is remembered at a queue that has not been full."""
    for queue_gate in core.gates.queue_gates.values():
        line = queue_gate.waiting
        assert line.remembers == (queue_gate in core.gates.contended) and (line.remembers or not line.remembered)


def surplus_is_bounded(queue_gate: QueueGate) -> None:
    """Check that a share unused at a full queue has saved up no more than some rounds bring."""
    marks = queue_gate.marks
    count = max(marks.stop_count + marks.overshoot_count, SHARE)
    nbytes = max(marks.stop_bytes + marks.overshoot_bytes, SHARE_BYTES)
    for share in queue_gate.waiting.remembered.values():
        assert share.surplus <= SAVED_ROUNDS * share.weight * (count if queue_gate.counts() else nbytes)


def waits_elsewhere(queue_gate: QueueGate) -> bool:
    """Whether all channels that wait at a queue with room wait for another queue that has none."""
    return all(any(map(is_blocked, waiter.gates)) for waiter in queue_gate.waiting)  # type: ignore[attr-defined]


def is_blocked(gate: Gate) -> bool:
    """Whether a gate lets no channel pass: it is shut, a commit that lacks room is first, or others have their turn."""
    return is_shut(gate) or is_behind_commit(gate) or gives_others_time(gate)


def is_behind_another(channel: Channel) -> bool:
    """Whether a commit waits at the same gate as another channel's, which is first."""
    others = (waiter for gate in channel.gates for waiter in gate.waiting if waiter is not channel)
    return any(waiter.runs_at_gates() for waiter in others)  # type: ignore[attr-defined]


def lacks_room(channel: Channel) -> bool:
    """Whether there is a gate without room for a channel's whole commit."""
    transaction = None if channel.running is None else channel.running.committing
    assert isinstance(transaction, Transaction)
    return bool(transaction.lacking(channel, pieces_of(channel, transaction), channel.services.moves))


def pieces_of(channel: Channel, transaction: Transaction) -> list[Piece]:
    """Return a transaction's pieces, found at once whatever the cost; the channel's budget is unchanged."""
    budget = channel.budget()
    left, budget.left = budget.left, UNLIMITED
    finding = transaction.pieces(channel, channel.services.publishing)
    try:
        while True:
            next(finding)
    except StopIteration as found:
        pieces: list[Piece] = found.value
    budget.left = left
    return pieces


def queue_of(gate: Gate) -> int:
    """Return the id of the gate's queue, 0 if the gate belongs to something else."""
    gate = itself(gate)
    if isinstance(gate, QueueGate):
        return gate.id
    return gate.limit.queue_id if isinstance(gate, RateGate) else 0


def is_stopped(channel: ChannelState) -> bool:
    """Whether a channel is held, or warned early that it will be."""
    return channel.held_by is not None or channel.notices.early is not None
