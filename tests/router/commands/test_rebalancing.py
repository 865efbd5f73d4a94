"""Commands on the lease on applying plans: one holder at a time, until it is over."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.control import Refusal
from router.commands.administration import Administration
from router.commands.rebalancing import ENTRIES_MAX, LEASE_SECONDS_MAX
from router.commands.registry import execute
from tests.router.making import Asked

LIMITS = {"moves": 1, "messages_per_second": 0}


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def administration(asked: Asked) -> Administration:
    return asked.administration()


def hold(administration: Administration, plan: str = "p", holder: str = "ann", **changed: Any) -> Any:
    arguments = {"seconds": 60, "limits": LIMITS, "progress": {}, **changed}
    return execute(administration, "rebalance_hold", {"plan": plan, "holder": holder, **arguments})


def command(administration: Administration, name: str, **arguments: object) -> Any:
    return execute(administration, name, arguments)


def test_one_plan_and_one_holder_at_a_time(administration: Administration) -> None:
    assert command(administration, "rebalance_lease") is None
    hold(administration)
    for plan, holder in (("p", "bob"), ("q", "ann")):
        with pytest.raises(Refusal, match=r"plan p is being applied by ann, whose lease expires in \d+ s"):
            hold(administration, plan, holder)
        assert command(administration, "rebalance_release", plan=plan, holder=holder) is False
    assert command(administration, "rebalance_release", plan="p", holder="ann") is True
    assert hold(administration, "q", "bob")["plan"] == "q"


def test_taken_again_it_lasts_on_and_says_how_far_it_is(administration: Administration) -> None:
    first = hold(administration, seconds=5)
    again = hold(administration, progress={"done": 3})
    assert again["since"] == first["since"]
    assert again["until"] > first["until"]
    assert command(administration, "rebalance_lease")["progress"] == {"done": 3}


def test_a_lease_that_is_over_is_anybodys(asked: Asked, administration: Administration) -> None:
    hold(administration, seconds=60)
    asked.time.passes(60)
    assert command(administration, "rebalance_lease") is None
    assert hold(administration, "q", "bob")["holder"] == "bob"


def test_operators_change_limits_and_end_it(administration: Administration) -> None:
    hold(administration)
    assert command(administration, "rebalance_limit", limits={"moves": 0})["limits"] == {**LIMITS, "moves": 0}
    again = hold(administration)
    assert (again["limits"], again["abort"]) == ({**LIMITS, "moves": 0}, False)
    with pytest.raises(Refusal, match="plan q is not being applied, p is"):
        command(administration, "rebalance_abort", plan="q")
    command(administration, "rebalance_abort", plan=None)
    assert hold(administration)["abort"] is True


def test_where_nobody_applies_a_plan(administration: Administration) -> None:
    for name, arguments in (("rebalance_limit", {"limits": {}}), ("rebalance_abort", {"plan": None})):
        with pytest.raises(Refusal, match="no plan is being applied"):
            command(administration, name, **arguments)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"seconds": 0}, "a lease lasts up to 600 seconds, not 0"),
        ({"seconds": LEASE_SECONDS_MAX + 1}, "a lease lasts up to 600 seconds, not 601"),
        ({"seconds": float("nan")}, "a lease lasts up to 600 seconds, not nan"),
        ({"limits": {"moves": -1}}, "limit moves is -1, not a number from 0 on"),
        ({"limits": {"moves": "1"}}, "limit moves is '1'"),
        ({"limits": {"moves": float("inf")}}, "limit moves is inf"),
        ({"limits": dict.fromkeys(map(str, range(ENTRIES_MAX + 1)), 0)}, "there are more than 32 limits"),
        ({"holder": "a" * 201}, "is too long"),
        ({"progress": dict.fromkeys(map(str, range(ENTRIES_MAX + 1)), 0)}, "is too long"),
    ],
)
def test_what_is_no_lease(administration: Administration, changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(Refusal) as refused:
        hold(administration, **changed)
    assert problem in str(refused.value)
    assert command(administration, "rebalance_lease") is None


def test_a_limit_that_is_none(administration: Administration) -> None:
    hold(administration)
    with pytest.raises(Refusal, match="there is no limit 'speed', only moves, messages_per_second"):
        command(administration, "rebalance_limit", limits={"speed": 1})
