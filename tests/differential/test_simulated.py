"""Random programs of methods, and deaths of processes, on a node and on a simulated one: the answers agree, so what the
simulator finds is true of the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.turns.link import Link
from tests.broker import Broker
from tests.differential.comparison import Compared, compare, examples
from tests.differential.programs import CONNECTIONS, PROGRAMS_WITH_DEATHS, Step
from tests.raw import Client
from tests.simulator.broker import SimulatedBroker

pytestmark = [pytest.mark.broker]

FEW, MANY = 20, 1000
NODES = 4
RUNS = count(1)


def started(exits: ExitStack, path: Path) -> Compared:
    """Return a real node that runs until the stack is left."""

    def kill(role: str, index: int) -> None:
        broker.wait_replaced(role, broker.kill(role, index))

    broker = exits.enter_context(Broker(path, acceptors=2, shards=2))
    return Compared(partial(Client.connect, broker.address), kill)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    with ExitStack() as exits:
        yield started(exits, tmp_path_factory.mktemp("penstock"))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Compared]]:
    """Several nodes in turn: a process that has run for a while before it dies is restarted without delay."""
    with ExitStack() as exits:
        yield cycle([started(exits, tmp_path_factory.mktemp("penstock")) for _ in range(NODES)])


def agrees(node: Compared, program: list[Step], seed: int) -> None:
    """AssertionError unless a simulated node with delays of this seed answers a program as the node does."""
    with SimulatedBroker(seed) as broker:
        compare([node, Compared(broker.connect, broker.kill)], CONNECTIONS, program, f"s{next(RUNS)}-")


@examples(FEW)
@given(program=PROGRAMS_WITH_DEATHS, seed=st.integers(0, 1 << 32))
def test_a_program_is_answered_as_by_a_simulated_node(node: Compared, program: list[Step], seed: int) -> None:
    agrees(node, program, seed)


def test_a_difference_is_found(node: Compared) -> None:
    right = Link.reply

    def wrong(link: Link, request: int, result: Any, error: Any = None) -> None:
        right(link, request, result + 1 if isinstance(result, int) else result, error)

    program = [
        Step(0, "queue.declare", {"queue": "q1"}),
        Step(1, "basic.publish", {"exchange": "", "routing_key": "q1"}),
        Step(0, "queue.purge", {"queue": "q1"}),
    ]
    with (
        patch.object(Link, "reply", wrong),
        SimulatedBroker(0) as broker,
        pytest.raises(AssertionError, match=r"(?s)'messages': 1.*'messages': 2"),
    ):
        compare([node, Compared(broker.connect)], CONNECTIONS, program, f"d{next(RUNS)}-", seconds=0.5)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@examples(MANY)
@given(program=PROGRAMS_WITH_DEATHS, seed=st.integers(0, 1 << 32))
def test_a_thousand_programs_are_answered_as_by_a_simulated_node(
    nodes: Iterator[Compared], program: list[Step], seed: int
) -> None:
    agrees(next(nodes), program, seed)
