from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import pytest

from load.options import ARGUMENTS, Bounds, LoadOptions, add_arguments, target_of
from load.target import Target


class Parser(ArgumentParser):
    """A stand-in for Locust's parser, which is not imported here: its import replaces the sockets."""

    def add_argument_group(self, *arguments: Any, **more: Any) -> Any:
        group = super().add_argument_group(*arguments, **more)
        add = group.add_argument
        group.add_argument = lambda *flags, env_var, **options: add(*flags, **options)  # type: ignore[method-assign]
        return group


def parsed(*arguments: str) -> Namespace:
    parser = Parser()
    add_arguments(parser)  # type: ignore[arg-type]
    return parser.parse_args(arguments)


def test_every_field_has_an_argument() -> None:
    options = LoadOptions.of(parsed())
    assert set(vars(parsed())) == ARGUMENTS
    assert options.queue_arguments == {}
    assert options.bounds == Bounds()


def test_bounds_are_kept_apart() -> None:
    options = LoadOptions.of(parsed("--max-depth", "99", "--min-rate", "5"))
    assert options.bounds == Bounds(max_depth=99, min_rate=5.0)


def test_marks_become_arguments_of_the_queue() -> None:
    options = LoadOptions.of(parsed("--stop-count", "100", "--resume-count", "70"))
    assert options.queue_arguments == {"qpid.flow_stop_count": 100, "qpid.flow_resume_count": 70}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--size", "15"], "--size"),
        (["--batch", "0"], "--batch"),
        (["--queue", ""], "--queue"),
        (["--prefetch", "65536"], "--prefetch"),
        (["--resume-count", "1"], "--resume-count"),
        (["--confirm", "no"], "--verify"),
        (["--pattern", "work-queue,"], "--pattern"),
        (["--scenario", ""], "--scenario"),
        (["--burst", "0"], "--burst"),
        (["--consumers", "-1"], "--consumers"),
        (["--subscribers", "0"], "--subscribers"),
        (["--slow-subscribers", "4"], "--slow-subscribers"),
        (["--slow-rate", "0"], "--slow-rate"),
        (["--call-seconds", "0"], "--call-seconds"),
        (["--max-resume-seconds", "1"], "--stop-count"),
    ],
)
def test_what_cannot_be_is_named(arguments: list[str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        LoadOptions.of(parsed(*arguments))


def test_no_host_is_the_broker_here() -> None:
    assert target_of(None) == Target()
