"""Parameters: those that mean something can be read, others cannot be set."""

from __future__ import annotations

import pytest

from tests.management import Api

pytestmark = pytest.mark.broker


def test_limits_and_operator_policies_are_parameters(api: Api, vhost: str) -> None:
    api.put(f"vhost-limits/{vhost}/max-queues", {"value": 3})
    api.put(f"operator-policies/{vhost}/cap", {"pattern": ".", "definition": {"max-length": 5}})
    policy, limits = (each for each in api.get("parameters") if each["vhost"] == vhost)
    assert (policy["component"], policy["name"]) == ("operator_policy", "cap")
    assert limits == api.get(f"parameters/vhost-limits/{vhost}/limits")
    assert limits["value"] == {"max-queues": 3}
    assert api.get(f"parameters/vhost-limits/{vhost}") == [limits]
    assert api.get("parameters/shovel") == []


def test_parameters_are_not_taken(api: Api, vhost: str) -> None:
    answer = api.call("PUT", f"parameters/shovel/{vhost}/s", {"value": {}})
    assert (answer.status_code, answer.json()["reason"]) == (400, "parameter 's' of shovel has no meaning here")
    answer = api.call("PUT", f"parameters/vhost-limits/{vhost}/limits", {"value": {}})
    assert answer.status_code == 400 and "/api/vhost-limits" in answer.json()["reason"]
    assert api.status("DELETE", f"parameters/shovel/{vhost}/s") == 404
    assert api.get("global-parameters") == []
    assert api.status("PUT", "global-parameters/x", {"value": 1}) == 400
    assert api.status("GET", "global-parameters/x") == 404
