"""Invariants of gauges, counters and charges: they are those of what exists."""

from __future__ import annotations

from collections import Counter

from acceptor.budgets.quotas import ORPHAN_BYTES, OVERDRAFT, RUN_BYTES
from acceptor.clients.channel_stage import DETACHED
from acceptor.clients.connection_stage import OPEN
from acceptor.clients.connection_state import ConnectionState
from acceptor.clients.pauses import HELD
from acceptor.core import AcceptorCore
from shard.queue.queue_state import QueueState
from shard.turns.room import MEMORY
from tests.simulator.joined.node import Node


def whoever_is_held_has_an_episode(core: AcceptorCore) -> None:
    """Check that every held channel has an open episode, and no other has one."""
    holding = core.holding
    episodes = holding.books.episodes.open
    assert episodes.keys() == holding.holds.held.keys()
    for channel, episode in episodes.items():
        assert (episode.paused_since is not None) == (channel.connection in holding.drip.paused)


def the_ledger_adds_up(core: AcceptorCore, seconds: float, holds: int) -> None:
    """Check that the accounts have all the time that channels were held, once for each kind: `seconds` of so many holds
    that are over, by the log, and what is held now (docs/flow-seeing.md).
    """
    books, now = core.holding.books, core.state.now
    present = [channel.hold for channel in core.holding.holds.held if channel.hold is not None]
    expected = seconds + sum(now - hold.since for hold in present)
    accounts: dict[str, tuple[float, int]] = {}
    for each in books.ledger.report(now):
        total, stops = accounts.get(each["by"], (0.0, 0))
        accounts[each["by"]] = total + each["seconds"], stops + each["stops"]
    for kind in ("user", "vhost", "queue"):
        total, stops = accounts.get(kind, (0.0, 0))
        assert abs(total - expected) <= 0.001 * (stops + holds), f"{total} s by {kind}, {expected} s by the log"
        assert stops == accounts.get("user", (0.0, 0))[1]
    assert books.ledger.since.keys() == core.holding.holds.held.keys()


def parking_is_counted(node: Node, index: int, core: AcceptorCore) -> None:
    """Check the counts of parked bytes, held channels and paused connections, once all has come to rest."""
    held, parking, paused = core.holding.holds.held, core.holding.parking, core.holding.drip.paused
    sizes = {channel: sum(item.nbytes for item in channel.inbox) for channel in node.channels()}
    here = {channel: size for channel, size in sizes.items() if channel.acceptor is core.state}
    assert parking.parked_bytes == sum(here.values())
    assert parking.orphan_bytes == sum(size for channel, size in here.items() if channel.stage is DETACHED)
    assert set(held) == {channel for channel in here if channel.held_by is not None}
    for connection in core.state.connections.values():
        assert connection.kept.parked == sum(here[channel] for channel in connection.channels.values())
        if connection.stage is not OPEN:
            continue
        assert connection.reads == (not connection.pauses)
        assert bool(connection.pauses & HELD) == (connection in paused)
        assert connection not in paused or not parking.has_drained(connection)
    core.write_counters()  # as at each recheck: the drip may have read since the last one
    counters = node.gauges.counters_read("acceptor", index)
    assert (counters.held_channels, counters.parked_bytes) == (len(held), parking.parked_bytes)
    unread = sum(each.pauses != 0 and each.stage is OPEN for each in core.state.connections.values())
    assert (counters.connections, counters.paused_connections) == (len(core.state.connections), unread)


# Memory kept for clients


def budgets_hold(node: Node) -> None:
    """Check that no more is kept for any client than allowed, beyond one read, and that charges are right."""
    for _, acceptor in node.running_acceptors():
        users_keep_to_their_shares(node, acceptor.core)
        accounts_are_right(acceptor.core)
        quotas_are_right(acceptor.core)
        for connection in acceptor.core.state.connections.values():
            connection_keeps_to_its_budget(node, acceptor.core, connection)


def connection_keeps_to_its_budget(node: Node, core: AcceptorCore, connection: ConnectionState) -> None:
    """Check that no more is kept for a connection than its limit and one read."""
    client = node.clients.get(connection)
    if client is not None:
        most = core.quotas.of_connection * OVERDRAFT + client.largest_charge
        assert connection.kept.held <= most, (connection.kept.held, most)


def users_keep_to_their_shares(node: Node, core: AcceptorCore) -> None:
    """Check the shares of users, and that of the one vhost, which bounds the acceptor."""
    quotas = core.quotas
    clients = [client for each in core.state.connections.values() if (client := node.clients.get(each)) is not None]
    assert quotas.kept == sum(quotas.users.values())
    for user, kept in quotas.users.items():
        reads = sum(client.largest_charge for client in clients if client.user == user)
        most = quotas.of_user * OVERDRAFT + reads + ORPHAN_BYTES
        assert kept <= most, (user, kept, most)
    reads = sum(client.largest_charge for client in clients)
    assert quotas.vhosts == ({"/": quotas.kept} if quotas.kept else {})
    assert quotas.kept <= quotas.of_vhost * OVERDRAFT + reads + ORPHAN_BYTES


def accounts_are_right(core: AcceptorCore) -> None:
    """Check that begun bodies, unread answers and uncommitted publishes are charged, and nothing else."""
    charged: Counter[str] = Counter()
    for connection in core.state.connections.values():
        charged[connection.user] += connection.kept.unfinished + connection.kept.uncommitted
        charged[connection.user] += core.budgets.outputs.waits(connection)
    right = {user: nbytes for user, nbytes in charged.items() if nbytes}
    assert core.budgets.accounts.users == right, (core.budgets.accounts.users, right)
    assert core.budgets.accounts.kept == charged.total()


def quotas_are_right(core: AcceptorCore) -> None:
    """Check that parked publishes are charged, also those of closed connections, and nothing else."""
    charged: Counter[str] = Counter()
    for connection in core.state.connections.values():
        charged[connection.user] += connection.kept.held
    for orphan in core.orphans.channels:
        runs = sum(item.nbytes + RUN_BYTES for item in orphan.inbox)
        charged[orphan.connection.user] += ORPHAN_BYTES + runs
    right = {user: nbytes for user, nbytes in charged.items() if nbytes}
    assert core.quotas.users == right, (core.quotas.users, right)


# Gauges of shards


def gauges_are_right(node: Node, index: int) -> None:
    """Check a shard's gauges against its queues, at the end of a turn."""
    core, shard = node.shard(index), node.shards[index]
    assert shard is not None
    for queue in core.state.queues.values():
        gauge_is_right(node, queue)
        counters_add_up(node, queue, shard.recovered.get(queue.id, 0))
    weight = sum(queue.weight for queue in core.state.queues.values()) + core.held
    assert core.state.weight == weight, f"{core.state.weight} is charged for {weight} bytes"
    there = {(queue.slot, queue.id) for queue in core.state.queues.values()}
    assert {*node.gauges.queues_of(index)} == there, "a slot is open of a queue that is not there"
    memory, room = node.gauges.queue_read(index), core.gate.room
    assert memory is not None
    assert (memory.ready_bytes, memory.saturated) == (weight, room.saturated)
    assert room.marks[MEMORY].saturated(room.saturated, 0, weight) == room.saturated
    assert bool(memory.name) == memory.saturated


def gauge_is_right(node: Node, queue: QueueState) -> None:
    """Check that a queue's gauge says what the queue has (docs/operations.md)."""
    contents, state = queue.contents, queue.saturation
    assert state.lent is not None or state.over == state.marks.saturated(state.over, queue.depth, queue.depth_bytes)
    assert state.saturated == (state.over and not queue.stands_aside), f"{queue.name}: {queue.depth} of {state.marks}"
    gauge = node.gauges.queue_read(queue.slot)
    assert gauge is not None, f"{queue.name} has no gauge"
    assert (gauge.queue_id, gauge.name, gauge.consumers) == (queue.id, queue.name, len(queue.ring))
    assert (gauge.ready, gauge.unacked) == (contents.ready, contents.unacked), queue.name
    assert (gauge.ready_bytes, gauge.unacked_bytes) == (contents.ready_bytes, contents.unacked_bytes), queue.name
    assert (gauge.flow_epoch, gauge.saturated) == (state.epoch, state.saturated), queue.name


def counters_add_up(node: Node, queue: QueueState, recovered: int) -> None:
    """Check that a queue's counters account for every message that it had or that has entered it."""
    gauge = node.gauges.queue_read(queue.slot)
    assert gauge is not None
    entered, left = gauge.counters.published + recovered, gauge.counters.acked + gauge.counters.dropped
    assert entered == gauge.ready + gauge.unacked + left, f"{queue.name}: {entered} have entered, {gauge}"
