"""Write buffers: the more connections a user has, the less output of each may wait and count as received."""

from __future__ import annotations

from acceptor.budgets.outputs import WRITE_HIGH_BYTES, WRITE_LEAST_BYTES, WRITE_PART
from tests.simulator.joined.node import Node

MIB = 1024 * 1024
USERS_SHARE = 32 * MIB


def test_the_buffers_of_a_user_with_many_connections_are_smaller() -> None:
    with Node(memory={"process_limit": 100 * USERS_SHARE, "user_percent": 1}) as node:
        assert node.core(0).budgets.accounts.of_user == USERS_SHARE
        clients = [node.connect() for _ in range(80)]
        buffers = [client.socket.write_buffer for client in clients]
        all_have = USERS_SHARE // WRITE_PART // WRITE_HIGH_BYTES
        assert buffers[:all_have] == [WRITE_HIGH_BYTES] * all_have
        assert buffers[all_have] < WRITE_HIGH_BYTES and buffers[-1] == WRITE_LEAST_BYTES
        assert buffers == sorted(buffers, reverse=True)
        for client in clients:
            client.lose()
        assert node.connect().socket.write_buffer == WRITE_HIGH_BYTES
