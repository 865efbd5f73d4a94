"""Limits on held publishes: the share that is used up, and how much a connection may keep then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.budgets.quotas import OVERDRAFT, SETTLING_BUDGETS, Quotas
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

MIB = 1024 * 1024
PARKING = 1024
FLOW = {
    "parked_memory": 2 * MIB, "spool_limit": 6 * MIB, "user_percent": 50, "vhost_percent": 75, "held_bytes": MIB,
    "parking_bytes": PARKING,
}  # fmt: skip
USER, VHOST, ALL = 4 * MIB, 6 * MIB, 8 * MIB


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(flow=FLOW) as node:
        for user in ("a", "b", "c"):
            node.add_user(user)
        node.declare("q")
        yield node


def clients(node: Node) -> list[Client]:
    """Return clients of three users, the last one in another vhost."""
    node.add_vhost("other")
    node.permit("c", ".*", "other")
    node.settle()
    return [open_channel(node, user="a"), open_channel(node, user="b"), open_channel(node, user="c", vhost="other")]


def test_each_share_has_its_words_and_the_smallest_comes_first(node: Node) -> None:
    quotas = Quotas(node.core(0).state)
    a, b, c = (client.connection for client in clients(node))
    quotas.keep(a, USER)
    assert quotas.used_up(a) == ""
    assert quotas.used_up(a, 1) == "user 'a' has its share (flow.user_percent)"
    assert quotas.used_up(b, VHOST - USER) == ""
    assert quotas.used_up(b, VHOST - USER + 1) == "vhost '/' has its share (flow.vhost_percent)"
    quotas.keep(b, VHOST - USER)
    assert quotas.used_up(c, ALL - VHOST) == ""
    assert quotas.used_up(c, ALL - VHOST + 1) == (
        "all users together have reached the limit (flow.parked_memory, flow.spool_limit)"
    )
    for connection, nbytes in ((a, USER), (b, VHOST - USER)):
        quotas.keep(connection, -nbytes)
    assert not quotas.users and not quotas.vhosts and not quotas.kept


def test_a_disk_that_refuses_more_leaves_the_memory() -> None:
    with Node(flow=FLOW, spools=True) as node:
        quotas, spool = Quotas(node.core(0).state), node.core(0).state.spool
        assert spool is not None
        connection = node.connect().connection
        quotas.keep(connection, FLOW["parked_memory"] + 1)
        assert not quotas.is_used_up(connection)
        spool.refuses = True
        assert quotas.used_up(connection) == (
            "all users together have reached the memory limit, and the disk refuses more (flow.parked_memory)"
        )


def test_an_overdraft_widens_every_share(node: Node) -> None:
    quotas = Quotas(node.core(0).state)
    connection = clients(node)[0].connection
    quotas.keep(connection, int(USER * OVERDRAFT))
    assert quotas.is_used_up(connection)
    assert not quotas.is_used_up(connection, overdraft=OVERDRAFT)
    assert quotas.is_used_up(connection, 1, OVERDRAFT)


def test_with_its_share_used_up_a_connection_may_keep_a_little_if_it_can_send_acks(node: Node) -> None:
    quotas = Quotas(node.core(0).state)
    settles, other, _ = clients(node)
    settles.call("basic.consume", 1, queue="q")
    assert quotas.allowance(settles.connection) == MIB
    for client in (settles, other):
        quotas.keep(client.connection, VHOST // 2 + 1)
    assert quotas.allowance(settles.connection) == SETTLING_BUDGETS * PARKING
    assert quotas.allowance(other.connection) == 0
    quotas.keep(settles.connection, int(USER * OVERDRAFT) - VHOST // 2)
    assert quotas.allowance(settles.connection) == 0


def test_a_user_beyond_its_share_takes_nothing_from_others(node: Node) -> None:
    quotas = Quotas(node.core(0).state)
    a, b, c = (client.connection for client in clients(node))
    quotas.keep(a, USER + 1)
    assert [quotas.allowance(connection) for connection in (a, b, c)] == [0, MIB, MIB]
