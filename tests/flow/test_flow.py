"""Flow control in any order of events (see `tests.flow.model`)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.flow.deaths import FlowAndDeath
from tests.flow.lives import FlowAndLives
from tests.flow.model import Flow
from tests.flow.router import FlowAndRouter
from tests.flow.schedule import run

pytestmark = pytest.mark.long

EXAMPLES = settings(
    max_examples=20,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)

TestFlow = Flow.TestCase
TestFlow.settings = EXAMPLES
TestFlowAndRouter = FlowAndRouter.TestCase
TestFlowAndRouter.settings = EXAMPLES
TestFlowAndDeath = FlowAndDeath.TestCase
TestFlowAndDeath.settings = EXAMPLES
TestFlowAndLives = FlowAndLives.TestCase
TestFlowAndLives.settings = EXAMPLES


@pytest.mark.parametrize("seed", range(34))
def test_a_long_schedule(seed: int) -> None:
    run(Flow(), seed, 150)


@pytest.mark.parametrize("seed", range(34))
def test_a_long_schedule_with_deaths_of_the_router(seed: int) -> None:
    run(FlowAndRouter(), seed, 150)


@pytest.mark.parametrize("seed", range(34))
def test_a_long_schedule_with_deaths(seed: int) -> None:
    run(FlowAndDeath(), seed, 150)


@pytest.mark.parametrize("seed", range(34))
def test_a_long_schedule_with_lives(seed: int) -> None:
    run(FlowAndLives(), seed, 150)


@pytest.mark.parametrize(
    ("model", "seed"),
    [
        (Flow, 1212),
        (Flow, 3264),
        (Flow, 3344),
        (FlowAndLives, 1351),
        (FlowAndLives, 2360),
        (FlowAndLives, 4047),
        (FlowAndLives, 6070),
    ],
)
def test_schedules_that_have_found_something(model: type[Flow], seed: int) -> None:
    run(model(), seed, 200)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3500, 100))
@pytest.mark.parametrize("model", [Flow, FlowAndRouter, FlowAndDeath, FlowAndLives])
def test_ten_thousand_schedules(model: type[Flow], first: int) -> None:
    for seed in range(first, first + 100):
        run(model(), seed, 200)
