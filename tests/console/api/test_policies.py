"""Policies and operator policies."""

from __future__ import annotations

import pytest

from tests.management import Api

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_policies_are_made_replaced_and_deleted(api: Api, vhost: str, kind: str) -> None:
    path = f"{kind}/{vhost}/a%2Fb"
    body = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
    assert [api.status("PUT", path, each) for each in (body, {**body, "priority": 3})] == [201, 204]
    assert api.get(path) == {"vhost": vhost, "name": "a/b", **body, "priority": 3}
    assert api.get(f"{kind}/{vhost}") == [api.get(path)]
    assert api.get(path) in api.get(kind)
    for wrong in ({"pattern": "("}, {"definition": {"nonsense": 1}}, {"apply-to": "cats"}, {"priority": "high"}):
        answer = api.call("PUT", path, {**body, **wrong})
        assert answer.status_code == 400 and answer.json()["reason"]
    assert [api.status("DELETE", path) for _ in range(2)] == [204, 404]
    assert api.status("PUT", f"{kind}/nowhere/x", body) == 404


def test_policymakers_make_policies_of_their_vhosts_only(api: Api, vhost: str) -> None:
    api.make_user("maker", "policymaker", vhost)
    body = {"pattern": "^q", "definition": {"max-length": 5}}
    assert api.status("PUT", f"policies/{vhost}/p", body, "maker") == 201
    assert api.status("PUT", f"operator-policies/{vhost}/p", body, "maker") == 401
    assert api.status("PUT", "policies/%2F/p", body, "maker") == 401
    assert api.status("DELETE", f"policies/{vhost}/p", user="maker") == 204
