from __future__ import annotations

import pytest

from load.scenarios import SCENARIOS, Moment

PROGRESS = [number / 200 for number in range(200)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_there_are_never_more_than_all_and_once_all(name: str) -> None:
    shares = [SCENARIOS[name](progress).share for progress in PROGRESS]
    assert min(shares) >= 0
    assert max(shares) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("constant", [1.0, 1.0, 1.0, 1.0, 1.0]),
        ("ramp", [0.0, 1 / 3, 2 / 3, 1.0, 1.0]),
        ("steps", [0.25, 0.5, 0.75, 1.0, 1.0]),
        ("spike", [0.25, 0.25, 1.0, 0.25, 0.25]),
        ("waves", [0.2, 0.6, 1.0, 0.6, 0.2]),
        ("outage", [1.0, 1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_the_course_of_each(name: str, shares: list[float]) -> None:
    at = [0.0, 0.25, 0.5, 0.75, 0.9999]
    assert [SCENARIOS[name](progress).share for progress in at] == pytest.approx(shares, abs=0.01)


def test_only_an_outage_sends_the_consumers_away() -> None:
    away = {name: [at for at in PROGRESS if not scenario(at).consuming] for name, scenario in SCENARIOS.items()}
    assert {name for name, times in away.items() if times} == {"outage"}
    assert (away["outage"][0], away["outage"][-1]) == (0.25, 0.495)
    assert SCENARIOS["outage"](0.3) == Moment(1.0, consuming=False)
