"""Equal shares of producers: how they are judged, and a small run of each course."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.fairness import COURSES, LEAST, Course, Result, add_weighty, jain, run, unfair
from load.target import Target
from tests.broker.process import Broker


def test_jain() -> None:
    assert jain([3, 3, 3]) == 1
    assert jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert jain([0, 0]) == 0


def test_what_is_unfair() -> None:
    fair, one = Result("marks", 1, [100, 110], 2.0, 210), Result("pace", 2, [200, 10], 2.0, 210)
    assert fair.jain >= LEAST > one.jain
    assert unfair([fair, one]) == ["pace with 2 acceptors: Jain 0.550, wanted 0.95"]
    assert str(fair).split() == ["marks", "1", "0.998", "100", "110", "105"]


@pytest.mark.broker
@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.name)
def test_a_course(tmp_path: Path, course: Course) -> None:
    with Broker(tmp_path) as broker:
        target = Target(broker.address.host, broker.address.port)
        if any(offer.weight != 1 for offer in course.offers):
            add_weighty(tmp_path / "data")
        offers = [offer._replace(window=20) for offer in course.offers[:2]]
        result = run(target, course._replace(offers=offers), 1, 0.5)
    assert len(result.shares) == 2 and sum(result.shares) > 0
