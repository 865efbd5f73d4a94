"""Permissions and topic permissions."""

from __future__ import annotations

import pytest

from tests.management import RIGHTS, Api

pytestmark = pytest.mark.broker


def test_permissions_are_set_read_and_deleted(api: Api, vhost: str) -> None:
    api.make_user("carl", "")
    path, rights = f"permissions/{vhost}/carl", {**RIGHTS, "write": "^a"}
    assert [api.status("PUT", path, body) for body in (RIGHTS, rights)] == [201, 204]
    assert api.get(path) == {"user": "carl", "vhost": vhost, **rights}
    assert api.get("users/carl/permissions") == [api.get(path)]
    assert api.get(path) in api.get(f"vhosts/{vhost}/permissions")
    assert api.status("PUT", path, {**RIGHTS, "read": "("}) == 400
    assert api.status("PUT", path, {"read": "x"}) == 400
    assert [api.status("DELETE", path) for _ in range(2)] == [204, 404]
    assert api.status("PUT", "permissions/nowhere/carl", RIGHTS) == 400
    assert api.status("PUT", f"permissions/{vhost}/nobody", RIGHTS) == 400


def test_topic_permissions_are_of_one_exchange(api: Api, vhost: str) -> None:
    api.make_user("dora", "")
    path = f"topic-permissions/{vhost}/dora"
    for exchange in ("amq.topic", "later"):
        api.put(path, {"exchange": exchange, "write": "^a", "read": ""})
    assert sorted(each["exchange"] for each in api.get(path)) == ["amq.topic", "later"]
    assert api.status("DELETE", f"{path}/later") == 204
    assert [each["exchange"] for each in api.get(f"vhosts/{vhost}/topic-permissions")] == ["amq.topic"]
    assert [api.status("DELETE", path), api.status("GET", path)] == [204, 404]
    assert api.status("GET", "users/nobody/topic-permissions") == 404
