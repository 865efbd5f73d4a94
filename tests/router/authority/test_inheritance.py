"""The levels of settings that a queue inherits: their policies and their order."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.limits.queue_limits import Level
from router.authority.inheritance import exchanges_hand_down, hands_down, inherited, levels_of, upstream
from router.model.records import Policy, Queue
from tests.router.making import Asked, policy


@pytest.fixture
def asked() -> Asked:
    asked = Asked()
    for name in ("x", "y", "z"):
        asked.done("exchange_declare", name=name)
    asked.done("queue_declare", name="q")
    return asked


def put(asked: Asked, name: str, pattern: str, apply_to: str = "exchanges", priority: int = 0, vhost: str = "/",
        **definition: Any) -> None:  # fmt: skip
    made = policy(name, pattern, apply_to, priority, **definition)
    asked.topology.apply(Policy(vhost, False, name, pattern, apply_to, priority, made.definition).change())


def queue(asked: Asked) -> Queue:
    found = asked.topology.queue("/", "q")
    assert found
    return found


def test_exchanges_upstream_are_those_that_route_to_the_queue_directly_or_through_others(asked: Asked) -> None:
    assert upstream(queue(asked), asked.topology) == []
    asked.done("queue_bind", queue="q", source="x", key="a")
    asked.done("queue_bind", queue="q", source="x", key="b")
    asked.done("exchange_bind", source="y", destination="x")
    asked.done("exchange_bind", source="x", destination="y")
    assert sorted(upstream(queue(asked), asked.topology)) == ["x", "y"]


def test_the_nearest_level_comes_first(asked: Asked) -> None:
    for source in ("z", "x", "y"):
        asked.done("queue_bind", queue="q", source=source)
    put(asked, "all", "", "node", vhost="", max_length=1)
    put(asked, "here", "^/$", "vhosts", vhost="", max_length=2)
    put(asked, "elsewhere", "^v$", "vhosts", vhost="", max_length=9)
    put(asked, "b", "^[xz]$", max_length=3)
    put(asked, "a", "^y$", max_length=4)
    assert levels_of(queue(asked), asked.topology) == [
        Level("policy 'a' of exchange 'y'", {"x-max-length": 4}),
        Level("policy 'b' of exchange 'x'", {"x-max-length": 3}),
        Level("policy 'b' of exchange 'z'", {"x-max-length": 3}),
        Level("policy 'here' of vhost '/'", {"x-max-length": 2}),
        Level("policy 'all' of the node", {"x-max-length": 1}),
    ]
    put(asked, "b", "^[xz]$", priority=1, max_length=3)
    first, *_ = levels_of(queue(asked), asked.topology)
    assert first.source == "policy 'b' of exchange 'x'"


def test_only_a_policy_for_exchanges_alone_hands_down(asked: Asked) -> None:
    asked.done("queue_bind", queue="q", source="x")
    put(asked, "all", "^x$", "all", max_length=5)
    assert not exchanges_hand_down("/", asked.topology)
    assert levels_of(queue(asked), asked.topology) == []
    put(asked, "all", "^x$", "exchanges", max_length=5)
    assert exchanges_hand_down("/", asked.topology)
    assert len(levels_of(queue(asked), asked.topology)) == 1


def test_a_policy_with_nothing_for_queues_is_no_level(asked: Asked) -> None:
    asked.done("queue_bind", queue="q", source="x")
    put(asked, "p", "^x$", alternate_exchange="y", sum_length=9)
    assert levels_of(queue(asked), asked.topology) == []
    assert not exchanges_hand_down("/", asked.topology)


@pytest.mark.parametrize(
    ("definition", "arguments"),
    [
        ({"max-length": 5, "throttle": "park"}, {"x-max-length": 5, "x-throttle": "park"}),
        ({"memoryLimit": 9}, {"x-max-length-bytes": 9, "x-overflow": "flow"}),
        ({"message-ttl": 5, "dead-letter-exchange": "x", "sum-length": 5, "ha-mode": "all"}, {}),
    ],
)
def test_settings_are_handed_down_as_arguments_of_a_declaration(
    definition: dict[str, Any], arguments: dict[str, Any]
) -> None:
    made = policy(apply_to="exchanges", **definition)
    assert inherited(made) == arguments
    assert hands_down(made) is bool(arguments)
    assert not hands_down(policy(apply_to="queues", **definition))
