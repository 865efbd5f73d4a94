"""The recent course of the node or a queue."""

from __future__ import annotations

from itertools import pairwise

from console.course import COARSE_SECONDS, DAY_MINUTES, DAY_SECONDS, FINE_MINUTES, Course, Sample
from console.sampler import NOTHING


def filled(count: int, apart: float = 1.0) -> Course:
    course = Course()
    for number in range(count):
        course.add(Sample(number * apart, number, 0, NOTHING))
    return course


def times(samples: list[Sample]) -> list[float]:
    return [sample.at for sample in samples]


def gaps(samples: list[Sample]) -> set[float]:
    return {after.at - before.at for before, after in pairwise(samples)}


def test_each_span_has_its_resolution() -> None:
    course = filled(100_000)
    minutes = times(course.last(FINE_MINUTES))
    assert minutes == [float(second) for second in range(100_000 - 600, 100_000)]
    assert times(course.last(1)) == minutes[-60:]
    hour, day = course.last(60), course.last(DAY_MINUTES)
    assert gaps(hour[:-1]) == {COARSE_SECONDS} and gaps(day[:-1]) == {DAY_SECONDS}
    assert hour[-1] is day[-1] is course.fine[-1]
    assert (len(hour), len(course.last(30)), len(day)) == (361, 181, 721)


def test_all_of_it_is_in_order_and_each_part_at_its_finest() -> None:
    course = filled(100_000)
    found = course.all()
    assert times(found) == sorted(set(times(found)))
    assert found[-600:] == list(course.fine) and found[0] == course.day[0]
    assert gaps(found[:-900]) == {DAY_SECONDS} and gaps(found[-899:-600]) == {COARSE_SECONDS}
    assert Course().all() == Course().last(10) == []


def test_samples_that_come_rarely_are_dropped_by_their_age() -> None:
    course = filled(3000, 60.0)
    assert (len(course.fine), len(course.coarse), len(course.day)) == (10, 60, 720)
    assert gaps(course.last(60)) == {60.0}


def test_a_course_has_its_first_sample_at_once() -> None:
    course = filled(1)
    assert times(course.last(1)) == times(course.last(60)) == times(course.last(DAY_MINUTES)) == [0.0]
