"""Commands on policies: changes, lists, explanations and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.control import Refusal
from penstock.limits.watermarks import FlowDefaults
from router.commands.registry import execute
from router.model.policy_keys import APPLY_TO
from tests.router.making import Asked

BOUNDS: dict[str, Any] = {
    "vhost": "/", "operator": False, "name": "bounds", "pattern": "^q", "apply_to": "queues", "priority": 3,
    "definition": {"max-length": 5},
}  # fmt: skip
INVALID = "invalid policy 'bounds' in vhost '/'"


@pytest.fixture
def asked() -> Asked:
    return Asked()


def command(asked: Asked, name: str, /, **arguments: object) -> Any:
    return execute(asked.administration(), name, arguments)


def refusal(asked: Asked, name: str, /, **arguments: object) -> tuple[str, str]:
    """Return kind and text of the refusal; check that nothing has changed."""
    asked.authority.ledger.take_steps()
    with pytest.raises(Refusal) as refused:
        command(asked, name, **arguments)
    assert asked.authority.ledger.take_steps() == []
    return refused.value.kind, str(refused.value)


@pytest.mark.parametrize("name", ["policy_set", "policy_try"])
def test_marks_go_with_the_settings_of_the_node(asked: Asked, name: str) -> None:
    fields = {**BOUNDS, "definition": {"max-length": 100, "overflow": "flow", "flow-resume-count": 90}}
    with pytest.raises(Refusal, match="resume mark 90 is above the stop mark 80"):
        command(asked, name, **fields)
    asked.authority.defaults = FlowDefaults(stop_percent=95)
    command(asked, name, **fields)


def test_set_list_and_delete(asked: Asked) -> None:
    operator = {**BOUNDS, "operator": True, "name": "o"}
    first = {**BOUNDS, "name": "first", "priority": 9}
    assert [command(asked, "policy_set", **each) for each in (BOUNDS, operator, first)] == [True] * 3
    assert command(asked, "policy_set", **{**BOUNDS, "definition": {"max-length": 6}}) is False
    changed = {**BOUNDS, "definition": {"max-length": 6}}
    assert command(asked, "policy_list", vhost="/") == command(asked, "policy_list", vhost=None)
    assert command(asked, "policy_list", vhost="/") == [first, changed, operator]
    command(asked, "policy_delete", vhost="/", operator=False, name="first")
    command(asked, "policy_delete", vhost="/", operator=True, name="o")
    assert command(asked, "policy_list", vhost="/") == [changed]


def test_explain(asked: Asked) -> None:
    asked.done("queue_declare", name="q")
    command(asked, "policy_set", **BOUNDS)
    reported = command(asked, "policy_explain", vhost="/", kind="queue", name="q")
    keys = [{"key": "max-length", "value": 5, "effect": "yes"}]
    assert reported == {"policy": "bounds", "operator_policy": None, "others": [], "keys": keys}
    assert command(asked, "policy_explain", vhost="/", kind="exchange", name="amq.topic")["policy"] is None


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        ({"vhost": "v"}, "not_found", "there is no vhost 'v'"),
        ({"name": ""}, "invalid", "the policy name cannot be empty"),
        ({"name": "a" * 300}, "invalid", "policy name of 300 bytes is longer than 255"),
        ({"pattern": "("}, "invalid", f"{INVALID}: '(' is not a regular expression: missing ): ("),
        ({"apply_to": "x"}, "invalid", f"{INVALID}: apply-to 'x' is not one of {', '.join(APPLY_TO)}"),
        ({"priority": "1"}, "invalid", "policy_set: priority is of type str"),
        ({"definition": {}}, "invalid", f"{INVALID}: its definition is empty"),
    ],
)  # fmt: skip
def test_refused(asked: Asked, wrong: dict[str, Any], kind: str, text: str) -> None:
    assert refusal(asked, "policy_set", **{**BOUNDS, **wrong}) == (kind, text)


def test_what_is_not_there(asked: Asked) -> None:
    assert refusal(asked, "policy_delete", vhost="/", operator=True, name="p") == (
        "not_found", "there is no operator policy 'p' in vhost '/'",
    )  # fmt: skip
    assert (
        refusal(asked, "policy_explain", vhost="/", kind="queue", name="q")[1] == "there is no queue 'q' in vhost '/'"
    )
    assert refusal(asked, "policy_list", vhost="v")[0] == "not_found"


def test_a_deleted_vhost_takes_its_policies_along(asked: Asked) -> None:
    command(asked, "vhost_add", name="v")
    command(asked, "policy_set", **{**BOUNDS, "vhost": "v"})
    command(asked, "vhost_delete", name="v")
    command(asked, "vhost_add", name="v")
    assert command(asked, "policy_list", vhost=None) == []
