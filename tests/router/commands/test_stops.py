"""Commands on operators' stops: records and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.control import Refusal
from router.commands.stops import NAMES, STOPS_MAX, TEXT_MAX, lift_expired
from tests.router.making import Asked

NOTHING = dict.fromkeys(NAMES)


@pytest.fixture
def asked() -> Asked:
    return Asked()


def stop(asked: Asked, seconds: float | None = None, reason: str = "", author: str = "ann", **names: str) -> Any:
    return asked.command("flow_stop", **{**NOTHING, **names}, author=author, reason=reason, seconds=seconds)


def test_a_stop_is_recorded_and_lifted_by_what_it_names(asked: Asked) -> None:
    made = stop(asked, 60, "maintenance", vhost="/", queue="q")
    assert made["since"] == asked.time.clock.now() + asked.time.WALL_AHEAD
    assert made["until"] == made["since"] + 60
    assert {name: made[name] for name in NAMES} == {**NOTHING, "vhost": "/", "queue": "q"}
    assert str(asked.authority.topology.stops[made["number"]]) == "stopped by ann: maintenance"
    assert asked.command("flow_start", **{**NOTHING, "vhost": "/"}) == []
    assert asked.command("flow_start", **{**NOTHING, "vhost": "/", "queue": "q"}) == [made]
    assert asked.command("flow_stops") == []


def test_by_number(asked: Asked) -> None:
    first, second = stop(asked), stop(asked, user="bob")
    assert asked.command("flow_lift", number=first["number"]) == first
    assert asked.command("flow_stops") == [second]
    with pytest.raises(Refusal, match=f"there is no stop {first['number']}"):
        asked.command("flow_lift", number=first["number"])


def test_no_later_stop_has_the_number_of_one_that_is_over(asked: Asked) -> None:
    """An operator who lifts by an old list would let go what another has stopped."""
    first = stop(asked)
    asked.command("flow_lift", number=first["number"])
    asked.start_again(1)
    second = stop(asked, user="bob")
    assert second["number"] > first["number"]
    with pytest.raises(Refusal, match=f"there is no stop {first['number']}"):
        asked.command("flow_lift", number=first["number"])


def test_the_same_again_replaces_it(asked: Asked) -> None:
    stop(asked, reason="one")
    second = stop(asked, reason="two")
    assert asked.command("flow_stops") == [second]
    assert str(asked.authority.topology.stops[second["number"]]) == "stopped by ann: two"


def test_when_its_time_is_up(asked: Asked) -> None:
    stop(asked, 60)
    lasting = stop(asked, 3600, user="bob")
    forever = stop(asked, user="eve")
    asked.time.passes(59)
    lift_expired(asked.administration())
    assert len(asked.command("flow_stops")) == 3
    asked.time.passes(1)
    lift_expired(asked.administration())
    assert asked.command("flow_stops") == [lasting, forever]


def test_it_goes_with_its_vhost(asked: Asked) -> None:
    asked.command("vhost_add", name="v")
    stop(asked, vhost="v")
    everywhere = stop(asked)
    asked.command("vhost_delete", name="v")
    assert asked.command("flow_stops") == [everywhere]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"queue": "q"}, "belongs to a vhost, which has to be named"),
        ({"vhost": "none"}, "there is no vhost 'none'"),
        ({"seconds": 0}, "a stop cannot last 0 seconds"),
        ({"seconds": float("nan")}, "a stop cannot last nan seconds"),
        ({"seconds": float("inf")}, "a stop cannot last inf seconds"),
        ({"reason": "two\nlines"}, "the reason has to be one line"),
        ({"author": "x" * (TEXT_MAX + 1)}, "the author has to be one line"),
    ],
)
def test_what_is_refused(asked: Asked, given: dict[str, Any], text: str) -> None:
    with pytest.raises(Refusal, match=text):
        stop(asked, **given)
    assert asked.command("flow_stops") == []


def test_there_is_an_end_to_their_number(asked: Asked) -> None:
    for number in range(STOPS_MAX):
        stop(asked, user=f"u{number}")
    with pytest.raises(Refusal, match=f"there are {STOPS_MAX} stops already"):
        stop(asked)
    assert stop(asked, user="u0", reason="again")["reason"] == "again"
