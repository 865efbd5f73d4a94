"""Memory that clients make an acceptor use: charged to one account per user, whatever its purpose."""

from __future__ import annotations

from tests.simulator.joined.node import Node


def test_answers_and_unfinished_bodies_are_charged_to_the_same_accounts() -> None:
    with Node(acceptors=2) as node:
        budgets = node.core(0).budgets
        assert budgets.outputs.accounts is budgets.unfinished.accounts is budgets.accounts
        assert budgets.unread.outputs is budgets.outputs
        assert node.core(1).budgets.accounts is not budgets.accounts
