"""Users held off from an address: for how long, how often, and how it is forgotten."""

from __future__ import annotations

import time
from typing import Any

import pytest

from router.authority import hold_offs
from router.authority.hold_offs import forget_expired
from router.commands.administration import Administration
from router.commands.registry import execute
from tests.router.making import Asked


@pytest.fixture
def asked() -> Asked:
    return Asked()


def command(asked: Asked, name: str, /, **arguments: object) -> Any:
    return execute(Administration(asked.authority.ledger, asked.authority.defaults), name, arguments)


def hold_off(asked: Asked, seconds: float, host: str = "10.0.0.1", most: float = 300, forget: float = 600) -> float:
    """How long the hold-off is that there is then."""
    asked.done("hold_off", user="bob", host=host, seconds=seconds, most=most, forget=forget, reason="it was full")
    found = asked.authority.topology.hold_offs["bob", host]
    assert found.forget_at == pytest.approx(found.until + forget)
    return found.until - found.since


def test_twice_as_long_each_time_up_to_a_limit(asked: Asked) -> None:
    lengths = []
    for _ in range(5):
        lengths.append(hold_off(asked, 1e-4, most=7e-4))
        time.sleep(0.001)
    assert lengths == pytest.approx([1e-4, 2e-4, 4e-4, 7e-4, 7e-4], rel=0.01)
    assert [each["times"] for each in command(asked, "flow_hold_offs")] == [5]


def test_several_connections_that_end_together_count_once(asked: Asked) -> None:
    for _ in range(3):
        assert hold_off(asked, 60) == pytest.approx(60)
    (found,) = command(asked, "flow_hold_offs")
    assert (found["user"], found["host"], found["times"], found["reason"]) == ("bob", "10.0.0.1", 1, "it was full")
    assert hold_off(asked, 5, host="10.0.0.2") == pytest.approx(5)


def test_good_behaviour_is_a_new_beginning(asked: Asked) -> None:
    for _ in range(2):
        hold_off(asked, 1e-6, forget=1e-6)
        time.sleep(0.001)
    hold_off(asked, 60, host="10.0.0.2")
    forget_expired(asked.authority.ledger)
    assert [each["host"] for each in command(asked, "flow_hold_offs")] == ["10.0.0.2"]
    assert hold_off(asked, 60) == pytest.approx(60)


def test_there_is_an_end_to_how_many(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold_offs, "HOLD_OFFS_MAX", 3)
    for number in range(5):
        hold_off(asked, 60 + number, host=f"10.0.0.{number}")
    assert [each["host"] for each in command(asked, "flow_hold_offs")] == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]
