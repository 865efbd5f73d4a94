"""Policies by themselves: the governing one, and its effect on a declaration's arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.model.policies import combined, effective, governing
from router.model.policy_keys import IGNORED, KEYS
from tests.router.making import policy


@pytest.mark.parametrize("key", IGNORED)
def test_a_key_without_effect_changes_no_argument(key: str) -> None:
    assert effective({"x-max-length": 1}, "classic", policy(**{key: "anything"}), None) == {"x-max-length": 1}


@pytest.mark.parametrize(
    ("apply_to", "sorts"),
    [
        ("all", {"exchange", "classic", "quorum"}), ("queues", {"classic", "quorum"}), ("exchanges", {"exchange"}),
        ("classic_queues", {"classic"}), ("quorum_queues", {"quorum"}), ("streams", set()),
    ],
)  # fmt: skip
def test_applies_to(apply_to: str, sorts: set[str]) -> None:
    found = {sort for sort in ("exchange", "classic", "quorum") if governing([policy(apply_to=apply_to)], sort, "n")}
    assert found == sorts


def test_the_highest_priority_governs_and_of_equals_the_first_by_name() -> None:
    policies = [
        policy("b", priority=1),
        policy("c", "^x", priority=9),
        policy("a", priority=1),
        policy("d", priority=-1),
    ]
    for name, expected in (("x", "c"), ("y", "a")):
        found = governing(policies, "classic", name)
        assert found and found.name == expected
    assert governing(policies[1:2], "classic", "y") is None


def merged(arguments: dict[str, Any], sort: str = "classic", operator: dict[str, Any] | None = None,
           **definition: Any) -> dict[str, Any]:  # fmt: skip
    bounds = policy(operator=True, **operator) if operator else None
    return effective(arguments, sort, policy(**definition) if definition else None, bounds)


def test_of_numbers_the_smallest_counts() -> None:
    assert merged({"x-max-length": 5}, max_length=9) == {"x-max-length": 5}
    assert merged({"x-max-length": 5}, max_length=2, expires=7) == {"x-max-length": 2, "x-expires": 7}
    assert merged({"x-message-ttl": 5}, message_ttl=0) == {"x-message-ttl": 0}
    assert merged({}, message_ttl=9, operator={"message-ttl": 3, "expires": 1}) == {"x-message-ttl": 3, "x-expires": 1}
    assert merged({"x-expires": 1}, operator={"expires": 3}) == {"x-expires": 1}
    assert merged({"qpid.flow_stop_count": "20"}, flow_stop_count=9) == {"qpid.flow_stop_count": 9}
    assert merged({"qpid.flow_stop_size": "1 MB"}, flow_stop_size="1 KiB") == {"qpid.flow_stop_size": "1 KiB"}
    assert merged({"qpid.flow_stop_count": "9 %"}, flow_stop_count="5 %") == {"qpid.flow_stop_count": "5 %"}
    assert merged({"qpid.flow_stop_count": "9 %"}, flow_stop_count=5) == {"qpid.flow_stop_count": "9 %"}


def test_numbers_that_are_no_limit() -> None:
    assert merged({"x-delivery-limit": -1}, "quorum", delivery_limit=3) == {"x-delivery-limit": 3}
    assert merged({"qpid.flow_stop_count": 0}, flow_stop_count=9) == {"qpid.flow_stop_count": 9}
    assert merged({"qpid.flow_resume_count": 0}, flow_resume_count=9) == {"qpid.flow_resume_count": 0}


def test_of_all_else_the_argument_counts_before_the_operator_before_the_policy() -> None:
    assert merged({"x-overflow": "drop-head"}, overflow="flow") == {"x-overflow": "drop-head"}
    assert merged({}, overflow="flow") == {"x-overflow": "flow"}
    assert merged({}, overflow="flow", operator={"overflow": "reject-publish"}) == {"x-overflow": "reject-publish"}
    said = {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "k"}
    assert merged({"x-dead-letter-exchange": "a"}, dead_letter_exchange="b", dead_letter_routing_key="k") == said


def test_keys_that_are_for_others_are_left_out() -> None:
    assert merged({}, delivery_limit=3, alternate_exchange="x", max_length=1) == {"x-max-length": 1}
    assert merged({}, "quorum", delivery_limit=3) == {"x-delivery-limit": 3}
    assert merged({}, "exchange", max_length=1, alternate_exchange="x") == {"alternate-exchange": "x"}


numbers = {key: st.integers(0, 9) for key, meaning in KEYS.items() if meaning.smaller}


@given(st.fixed_dictionaries({}, optional=numbers), st.fixed_dictionaries({}, optional=numbers))
def test_an_operator_s_policy_only_ever_lowers(ours: dict[str, int], theirs: dict[str, int]) -> None:
    both = combined(policy(**ours) if ours else None, policy(operator=True, **theirs) if theirs else None)
    assert both.keys() == ours.keys() | theirs.keys()
    for key, value in both.items():
        given = [definition[key] for definition in (ours, theirs) if key in definition]
        unlimited = key.startswith("flow-stop") and any(given)
        assert value == min(number for number in given if number or not unlimited)
