"""Hold-offs of users from an address: their length, their number, and how they are forgotten."""

from __future__ import annotations

import pytest

from router.authority import hold_offs
from router.authority.hold_offs import forget_expired
from tests.router.making import Asked


@pytest.fixture
def asked() -> Asked:
    return Asked()


def hold_off(asked: Asked, seconds: float, host: str = "10.0.0.1", most: float = 300, forget: float = 600) -> float:
    """Hold off a user; return the length of the resulting hold-off."""
    asked.done("hold_off", user="bob", host=host, seconds=seconds, most=most, forget=forget, reason="it was full")
    found = asked.authority.topology.hold_offs["bob", host]
    assert found.forget_at == found.until + forget
    return found.until - found.since


def test_twice_as_long_each_time_up_to_a_limit(asked: Asked) -> None:
    lengths = []
    for _ in range(5):
        lengths.append(hold_off(asked, 10, most=70))
        asked.time.passes(lengths[-1])
    assert lengths == [10, 20, 40, 70, 70]
    assert [each["times"] for each in asked.command("flow_hold_offs")] == [5]


def test_several_connections_that_end_together_count_once(asked: Asked) -> None:
    for _ in range(3):
        assert hold_off(asked, 60) == 60
        asked.time.passes(19)
    (found,) = asked.command("flow_hold_offs")
    assert (found["user"], found["host"], found["times"], found["reason"]) == ("bob", "10.0.0.1", 1, "it was full")
    assert hold_off(asked, 5, host="10.0.0.2") == 5


def test_good_behaviour_is_a_new_beginning(asked: Asked) -> None:
    hold_off(asked, 60, forget=600)
    asked.time.passes(60)
    hold_off(asked, 60, host="10.0.0.2")
    asked.time.passes(599)
    forget_expired(asked.authority)
    assert len(asked.command("flow_hold_offs")) == 2
    asked.time.passes(1)
    forget_expired(asked.authority)
    assert [each["host"] for each in asked.command("flow_hold_offs")] == ["10.0.0.2"]
    assert hold_off(asked, 60) == 60


def test_there_is_an_end_to_how_many(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold_offs, "HOLD_OFFS_MAX", 3)
    for number in range(5):
        hold_off(asked, 60 + number, host=f"10.0.0.{number}")
    assert [each["host"] for each in asked.command("flow_hold_offs")] == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]
