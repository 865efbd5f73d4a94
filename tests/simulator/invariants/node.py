"""The invariants of a joined node."""

from __future__ import annotations

from tests.simulator.invariants.accounts import (
    budgets_hold,
    gauges_are_right,
    parking_is_counted,
    whoever_is_held_has_an_episode,
)
from tests.simulator.invariants.attacks import attackers_keep_to_their_bounds, nobody_is_unread_in_vain
from tests.simulator.invariants.consumers import nobody_starves, shared_prefetch_holds
from tests.simulator.invariants.gates import no_share_is_remembered_in_vain, nobody_waits_in_vain, nothing_is_claimed
from tests.simulator.invariants.ladders import rungs_are_left_in_time, whoever_is_refused_waits_for_nothing
from tests.simulator.invariants.metered import somebody_checks
from tests.simulator.invariants.moving import has_let_go, has_settled
from tests.simulator.joined.node import Node
from tests.simulator.records import in_words, records

LEAVING_SECONDS = 2.0
"""How long a queue that nobody has used may take to go: its shard may have to wake, and asks the router."""


def hold_always(node: Node) -> None:
    """Check the invariants that hold after each step."""
    budgets_hold(node)
    attackers_keep_to_their_bounds(node)
    shared_prefetch_holds(node)
    for _, acceptor in node.running_acceptors():
        whoever_is_held_has_an_episode(acceptor.core)
        somebody_checks(acceptor.core)


def hold_at_rest(node: Node) -> None:
    """Check the invariants that hold once everything that can happen has happened, and all processes run."""
    everybody_knows(node)
    moves_are_over(node)
    for seat, acceptor in node.running_acceptors():
        nothing_is_claimed(node, node.index_of(seat), acceptor)
    for seat, acceptor in node.running_acceptors():  # these checks may claim room until the turn ends
        nobody_waits_in_vain(acceptor.core)
        no_share_is_remembered_in_vain(acceptor.core)
        parking_is_counted(node, node.index_of(seat), acceptor.core)
        nobody_is_unread_in_vain(acceptor.core)
        rungs_are_left_in_time(acceptor.core, node.now)
        whoever_is_refused_waits_for_nothing(acceptor.core)
    for index, _ in node.running_shards():
        gauges_are_right(node, index)
        no_queue_outstays(node, index)
    nobody_starves(node)


def hold_when_empty(node: Node) -> None:
    """Check at rest that all queues are empty, and then no channel is held, parked or paused, and nothing is kept
    (docs/flow-promises.md).
    """
    for _, shard in node.running_shards():
        assert not [queue.name for queue in shard.core.state.queues.values() if queue.depth]
    for _, acceptor in node.running_acceptors():
        core = acceptor.core
        held, paused = core.holding.holds.held, core.holding.drip.paused
        assert not held, f"held with empty queues: {list(held)}"
        assert not paused, f"paused with empty queues: {list(paused)}"
        assert core.holding.parking.parked_bytes == 0, "parked publishes with empty queues"
        assert (core.quotas.kept, core.quotas.users) == (0, {}), "memory is charged for nothing"
        assert (core.budgets.accounts.kept, core.budgets.accounts.users) == (0, {})
        last_resort = core.holding.last_resort
        assert not last_resort.spent and not last_resort.resorted and not last_resort.closing
        assert core.state.spool is None or core.state.spool.held == 0


def everybody_knows(node: Node) -> None:
    """Check that every process has the router's topology, and lacks no answer of the router."""
    topology = records(node.router.topology)
    replicas = [(process.router, process.core.topology) for _, process in node.running_acceptors()]
    replicas += [(process.router, process.core.state.topology) for _, process in node.running_shards()]
    for follower, replica in replicas:
        assert follower.version == replica.version == node.version, (follower.version, node.version)
        assert not follower.pending and not follower.loading
        known = records(replica)
        missing, extra = ([in_words(each) for each in side] for side in (topology - known, known - topology))
        assert not missing and not extra, f"a replica lacks {missing} and has {extra}"


def no_queue_outstays(node: Node, index: int) -> None:
    """Check that queues are deleted that nobody has used for as long as they are to be kept (x-expires)."""
    left = node.microseconds() - int(LEAVING_SECONDS * 1e6)
    for queue in node.shard(index).state.queues.values():
        assert not queue.is_forgotten(left), f"{queue.name} outstays, it was used at {queue.usage.last} µs"


def moves_are_over(node: Node) -> None:
    """Check that no move is under way, and each queue has one home, where nothing is left of its move."""
    assert not node.router.topology.moves
    for _, acceptor in node.running_acceptors():
        has_settled(acceptor)
    for _, shard in node.running_shards():
        has_let_go(shard)
    for queue in node.router.topology.queues():
        homes = [index for index, shard in node.running_shards() if queue.queue_id in shard.core.state.queues]
        assert homes == [queue.shard], f"{queue.name} is at {homes} instead of {queue.shard}"
