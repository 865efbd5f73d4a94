"""Limits that a queue inherits, and their sources."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.limits.queue_limits import Decided, Level, decided
from penstock.limits.watermarks import FlowDefaults, Marks, QueueLimits

NODE = FlowDefaults(1000)
EXCHANGE = Level("exchange policy 'x'", {"x-max-length": 500})
VHOST = Level("vhost policy 'v'", {"x-max-length": 200, "x-max-length-bytes": 5000})


def inherited(*levels: Level, **arguments: Any) -> Decided:
    spelled = {name.replace("_", "-"): value for name, value in arguments.items()}
    return decided(spelled, NODE, adapt=True, levels=levels)


def flow(count: int | None, nbytes: int | None, *marks: int) -> QueueLimits:
    return QueueLimits(count, nbytes, "flow", Marks(*marks))


def test_limits_come_from_the_first_level_that_names_any() -> None:
    assert inherited().limits == flow(1000, None, 800, 700)
    assert inherited(VHOST).limits == flow(200, 5000, 160, 140, 4000, 3500)
    assert inherited(EXCHANGE, VHOST).limits == flow(500, None, 400, 350)
    assert inherited(EXCHANGE, VHOST, x_flow_stop_size=7).limits == flow(None, None, 0, 0, 7, 6)
    assert inherited(VHOST, x_max_length=5).limits == QueueLimits(5, None, "drop-head", Marks.NONE)


def test_marks_in_percent_overflow_and_flow_come_each_from_the_first_that_names_it() -> None:
    stop = Level("a", {"x-flow-stop-count": "50 %"})
    resume = Level("b", {"x-flow-resume-count": "10 %", "x-flow-stop-count": "40 %", "x-overflow": "flow"})
    assert inherited(stop, resume).limits == flow(1000, None, 500, 100)
    assert inherited(stop, resume, x_max_length=10).limits == flow(10, None, 5, 1)
    assert inherited(stop, resume, x_max_length=10, x_flow_stop_count=9).limits.marks.stop_count == 9
    assert inherited(Level("a", {"x-overflow": "ring"}), resume).limits == QueueLimits(1000, None, "ring", Marks.NONE)
    assert inherited(Level("a", {"x-flow": "off"}), VHOST).limits == QueueLimits(None, None, "flow", Marks.NONE)
    assert inherited(Level("a", {"x-flow": "off"}), VHOST, x_flow="on").limits.marks


def test_resume_above_an_inherited_stop_is_lowered() -> None:
    level = Level("a", {"x-flow-resume-count": "90 %"})
    assert inherited(level).limits == flow(1000, None, 800, 800)
    assert inherited(level, x_flow_stop_count=10).limits == flow(None, None, 10, 10)


@pytest.mark.parametrize(
    ("decision", "sources"),
    [
        (
            inherited(),
            {
                "overflow": "the default",
                "flow": "the default",
                "max-length": "the node's max_count",
                "flow-stop-count": "the node's stop_percent",
                "flow-resume-count": "the node's resume_percent",
            },
        ),
        (
            inherited(EXCHANGE, Level("vhost policy 'v'", {"x-flow-stop-count": "60 %", "x-overflow": "flow"})),
            {
                "overflow": "vhost policy 'v': x-overflow",
                "flow": "the default",
                "max-length": "exchange policy 'x': x-max-length",
                "flow-stop-count": "vhost policy 'v': x-flow-stop-count",
                "flow-resume-count": "the node's resume_percent",
            },
        ),
        (
            inherited(VHOST, x_max_length=9, x_flow="on"),
            {"overflow": "the default with x-max-length", "flow": "x-flow", "max-length": "x-max-length"},
        ),
    ],
)
def test_sources(decision: Decided, sources: dict[str, str]) -> None:
    assert decision.sources == {"throttle": "the default", "hold": "the default"} | sources


def test_the_origin_of_arguments() -> None:
    decision = decided({"qpid.max_count": 5}, NODE, origin=lambda name: f"whose {name} is")
    assert decision.sources["max-length"] == "whose qpid.max_count is: qpid.max_count"
