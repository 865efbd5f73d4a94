"""The recent course of the node or a queue."""

from __future__ import annotations

from itertools import pairwise

from console.course import COARSE, COARSE_KEPT, FINE_MINUTES, KEPT, Course, Sample
from console.sampler import NOTHING


def filled(count: int) -> Course:
    course = Course()
    for second in range(count):
        course.add(Sample(float(second), second, 0, NOTHING))
    return course


def times(samples: list[Sample]) -> list[float]:
    return [sample.at for sample in samples]


def test_ten_minutes_are_kept_second_by_second_and_an_hour_every_ten() -> None:
    course = filled(5000)
    assert times(course.last(FINE_MINUTES)) == [float(second) for second in range(5000 - KEPT, 5000)]
    hour = times(course.last(60))
    assert len(hour) == COARSE_KEPT and hour[-1] == 4990.0
    assert {after - before for before, after in pairwise(hour)} == {float(COARSE)}


def test_a_course_that_begins_anew_has_its_first_sample_at_once() -> None:
    course = filled(15)
    course.clear()
    course.add(Sample(99.0, 1, 0, NOTHING))
    assert times(course.last(1)) == times(course.last(60)) == [99.0]
