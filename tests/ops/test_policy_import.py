"""Policies in definitions as RabbitMQ exports them."""

from __future__ import annotations

from typing import Any

import pytest

from ops.administration.policy import imported
from ops.errors import CommandError

POLICY: dict[str, Any] = {
    "vhost": "v", "name": "p", "pattern": "^q", "apply-to": "queues", "definition": {"max-length": 5}, "priority": 2,
}  # fmt: skip
FIELDS = {
    "vhost": "v", "operator": False, "name": "p", "pattern": "^q", "apply_to": "queues", "priority": 2,
    "definition": {"max-length": 5},
}  # fmt: skip


def test_of_a_node() -> None:
    operator = {**FIELDS, "operator": True}
    parameter = {"vhost": "v", "component": "operator_policy", "name": "p", "value": {**POLICY}}
    other = {"vhost": "v", "component": "federation-upstream", "name": "u", "value": {}}
    assert imported({"policies": [POLICY]}, None) == [FIELDS]
    assert imported({"policies": [], "parameters": [other, parameter]}, None) == [operator]
    assert imported({"operator_policies": [POLICY]}, None) == [operator]
    assert imported({"users": []}, None) == []


def test_of_a_vhost() -> None:
    without = {name: value for name, value in POLICY.items() if name not in ("vhost", "priority", "apply-to")}
    assert imported({"policies": [without]}, None) == [{**FIELDS, "vhost": "/", "priority": 0, "apply_to": "all"}]
    assert imported({"policies": [POLICY]}, "w") == [{**FIELDS, "vhost": "w"}]


@pytest.mark.parametrize(
    ("definitions", "reason"),
    [
        ([], "the file contains no definitions: it is not a JSON object"),
        ({"policies": {}}, "policies is not a list"),
        ({"policies": ["p"]}, "'p' is not a policy"),
    ],
)
def test_what_is_none(definitions: Any, reason: str) -> None:
    with pytest.raises(CommandError) as refused:
        imported(definitions, None)
    assert str(refused.value) == reason
