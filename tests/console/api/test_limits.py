"""Limits of vhosts and users."""

from __future__ import annotations

import pytest

from tests.management import Api

pytestmark = pytest.mark.broker


def test_limits_are_set_and_cleared(api: Api, vhost: str) -> None:
    path = f"vhost-limits/{vhost}"
    assert api.get(path) == []
    api.put(f"{path}/max-queues", {"value": 3})
    api.put(f"{path}/max-connections", {"value": -1})
    assert api.get(path) == [{"vhost": vhost, "value": {"max-queues": 3, "max-connections": -1}}]
    assert api.get(path)[0] in api.get("vhost-limits")
    for limit, value in (("max-cats", 1), ("max-queues", -2), ("max-queues", "many"), ("max-queues", True)):
        assert api.status("PUT", f"{path}/{limit}", {"value": value}) == 400
    assert [api.status("DELETE", f"{path}/{limit}") for limit in ("max-queues", "max-connections")] == [204, 204]
    assert api.get(path) == []


def test_a_user_sees_its_own_limits(api: Api, vhost: str) -> None:
    for name in ("emma", "fred"):
        api.make_user(name, "management", vhost)
        api.put(f"user-limits/{name}/max-channels", {"value": 5})
    assert api.get("user-limits", "emma") == api.get("user-limits/emma", "emma")
    assert api.status("GET", "user-limits/fred", user="emma") == 401
    assert [each["user"] for each in api.get("user-limits")] == ["emma", "fred"]
    assert api.status("GET", "user-limits/nobody") == 404
