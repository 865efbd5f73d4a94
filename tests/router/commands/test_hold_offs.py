"""Commands on hold-offs: the list, and lifting them."""

from __future__ import annotations

import pytest

from tests.router.making import Asked


@pytest.fixture
def asked() -> Asked:
    return Asked()


def hold_off(asked: Asked, host: str = "10.0.0.1", user: str = "bob") -> None:
    asked.done("hold_off", user=user, host=host, seconds=60, most=300, forget=600, reason="it was full")


@pytest.mark.parametrize(
    ("named", "left"),
    [
        ({}, []),
        ({"user": "bob"}, []),
        ({"host": "10.0.0.1"}, ["10.0.0.2"]),
        ({"user": "ann"}, ["10.0.0.1", "10.0.0.2"]),
    ],
)
def test_hold_offs_are_lifted_by_user_and_host(asked: Asked, named: dict[str, str], left: list[str]) -> None:
    for host in ("10.0.0.1", "10.0.0.2"):
        hold_off(asked, host)
    gone = asked.command("flow_readmit", **{"user": None, "host": None, **named})
    assert [each["host"] for each in asked.command("flow_hold_offs")] == left
    assert len(gone) + len(left) == 2


def test_a_hold_off_is_shown_with_times_of_the_wall_clock(asked: Asked) -> None:
    assert asked.command("flow_hold_offs") == []
    hold_off(asked)
    (found,) = asked.command("flow_hold_offs")
    since = found.pop("since")
    assert since == asked.time.clock.now() + asked.time.WALL_AHEAD
    assert found.pop("until") == since + 60
    assert found.pop("forget_at") == since + 660
    assert found == {"user": "bob", "host": "10.0.0.1", "times": 1, "reason": "it was full"}


def test_a_lifted_hold_off_is_told_and_stays_lifted(asked: Asked) -> None:
    hold_off(asked)
    hold_off(asked, user="ann")
    (known,) = [each for each in asked.command("flow_hold_offs") if each["user"] == "ann"]
    (lifted,) = asked.command("flow_readmit", user="ann", host="10.0.0.1")
    assert lifted == known
    assert asked.recorded[-1].durable and asked.recorded[-1].change[0] == "hold_off_gone"
    assert asked.command("flow_readmit", user="ann", host=None) == []
    hold_off(asked, user="ann")
    assert {(each["user"], each["times"]) for each in asked.command("flow_hold_offs")} == {("ann", 1), ("bob", 1)}
