"""Publishes over HTTP that wait: only a few at once."""

from __future__ import annotations

from acceptor.direct.clients import WAITING_MOST
from acceptor.direct.steps import WAIT_SECONDS
from tests.acceptor.direct.steps import begin, fill, pass_time, publish, publishing
from tests.simulator.joined.node import Node


def test_only_few_publishes_wait_at_once(node: Node) -> None:
    fill(node)
    waiting = [begin(node, "publish", **publishing("q")) for _ in range(WAITING_MOST)]
    node.settle()
    assert not any(waiting)
    assert publish(node, "q")["kind"] == "busy"
    pass_time(node, WAIT_SECONDS)
    assert [answers[0]["kind"] for answers in waiting] == ["busy"] * WAITING_MOST
