"""The simulator finds nothing in the product, finds every planted bug, and plays a seed again to the same byte."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulator.coverage import Coverage
from tests.simulator.drawing import draw
from tests.simulator.plan import Plan
from tests.simulator.planted import PLANTS
from tests.simulator.planting import Plant
from tests.simulator.play import Ending, play
from tests.simulator.shrink import shrink

PIECE = 10
MOST_SEEDS = 2000
"""Within so many seeds every planted bug is found."""


@pytest.mark.long
@pytest.mark.parametrize(
    "first", [*range(0, 50, PIECE), *(pytest.param(first, marks=pytest.mark.slow) for first in range(50, 100, PIECE))]
)
def test_all_promises_are_kept(first: int) -> None:
    endings = [play(draw(seed)) for seed in range(first, first + PIECE)]
    for ending in endings:
        assert ending.failure is None, f"make simulate SEED={ending.plan.seed}: {ending.failure}"
    assert sum(ending.messages for ending in endings) > PIECE


@pytest.mark.long
def test_a_seed_is_replayed_to_the_same_byte_whatever_the_order_of_sets() -> None:
    seed = next(seed for seed in range(100) if play(draw(seed)).messages > 100)
    digests = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.simulator", "--seed", str(seed)]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        digests.add(output.splitlines()[-1])
    (last,) = digests
    assert "digest" in last


def test_most_transitions_happen() -> None:
    coverage = Coverage()
    for seed in range(5):
        coverage += play(draw(seed)).coverage
    assert ("link", "AWAITING", "REPORTED") in coverage.transitions
    assert ("link", "AWAITING", "REPORTED") not in coverage.missing()
    assert coverage.missing()


@pytest.mark.slow
def test_a_failing_plan_is_shrunk_to_the_same_failure() -> None:
    plant = PLANTS["a lifted stop still holds"]
    found = first_failure(plant)
    assert found is not None
    with plant.planted():
        small = shrink(found, most=60)
    assert small.failure is not None
    assert small.where == found.where
    assert size(small.plan) < size(found.plan)
    assert small.story


def first_failure(plant: Plant) -> Ending | None:
    """Plant a bug, and return the first ending that shows it; None if none of many does."""
    for plan in filter(plant.needs, map(draw, range(MOST_SEEDS))):
        with plant.planted():
            ending = play(plan)
        if ending.failure is not None:
            return ending
    return None


def size(plan: Plan) -> int:
    """Return the number of a plan's parts."""
    return len(plan.clients) + len(plan.faults) + len(plan.operations) + len(plan.storms)


def test_all_planted_bugs_replace_what_is_there() -> None:
    for plant in PLANTS.values():
        with plant.planted():
            pass


@pytest.mark.slow
@pytest.mark.parametrize("bug", [*PLANTS])
def test_a_planted_bug_is_found(bug: str) -> None:
    assert first_failure(PLANTS[bug]) is not None, f"not found in {MOST_SEEDS} seeds"
