"""Random programs of methods sent to a node and to a simulated one: the answers agree, so what the simulator finds is
true of the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.broker import Broker
from tests.differential.comparison import compare
from tests.differential.programs import CONNECTIONS, PROGRAMS, Step
from tests.raw import Address, Client
from tests.simulator.broker import SimulatedBroker

pytestmark = [pytest.mark.broker]

FEW, MANY = 20, 1000
RUNS = count(1)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with Broker(tmp_path_factory.mktemp("penstock"), acceptors=2, shards=2) as broker:
        yield broker.address


def examples(most: int) -> settings:
    """Return settings with which the same examples are drawn each time."""
    return settings(max_examples=most, derandomize=True, database=None, deadline=None,
                    suppress_health_check=list(HealthCheck), report_multiple_bugs=False)  # fmt: skip


@examples(FEW)
@given(program=PROGRAMS, seed=st.integers(0, 1 << 32))
def test_a_program_is_answered_as_by_a_simulated_node(address: Address, program: list[Step], seed: int) -> None:
    with SimulatedBroker(seed) as simulated:
        compare([partial(Client.connect, address), simulated.connect], CONNECTIONS, program, f"s{next(RUNS)}-")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@examples(MANY)
@given(program=PROGRAMS, seed=st.integers(0, 1 << 32))
def test_many_programs_are_answered_as_by_a_simulated_node(address: Address, program: list[Step], seed: int) -> None:
    with SimulatedBroker(seed) as simulated:
        compare([partial(Client.connect, address), simulated.connect], CONNECTIONS, program, f"m{next(RUNS)}-")
