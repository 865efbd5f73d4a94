"""What a user sees and may do, by its tags."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker import Broker
from tests.management import Api

pytestmark = pytest.mark.broker

TAGS = ("none", "management", "policymaker", "monitoring", "administrator")
OWN, OTHER = "own", "other"

READ = {
    "whoami": "management policymaker monitoring administrator",
    "overview": "management policymaker monitoring administrator",
    "vhosts/own": "management policymaker monitoring administrator",
    "queues/own": "management policymaker monitoring administrator",
    "policies/own": "management policymaker monitoring administrator",
    "queues/other": "monitoring administrator",
    "exchanges/other": "monitoring administrator",
    "bindings/other": "monitoring administrator",
    "policies/other": "monitoring administrator",
    "consumers/other": "monitoring administrator",
    "vhosts/other/connections": "monitoring administrator",
    "aliveness-test/other": "administrator",
    "nodes": "monitoring administrator",
    "healthchecks/node": "monitoring administrator",
    "parameters": "policymaker administrator",
    "parameters/shovel/own": "policymaker administrator",
    "parameters/shovel/other": "administrator",
    "global-parameters": "policymaker administrator",
    "users": "administrator",
    "users/guest": "administrator",
    "permissions": "administrator",
    "topic-permissions": "administrator",
    "vhosts/own/permissions": "administrator",
    "definitions": "administrator",
    "definitions/own": "administrator",
}
"""Those who may read."""

POLICY = {"pattern": "^q", "definition": {"max-length": 5}}
CHANGE = (
    ("PUT", "vhosts/new", None, "administrator"),
    ("DELETE", "vhosts/nothing", None, "administrator"),
    ("PUT", "users/new", {"password": "x", "tags": ""}, "administrator"),
    ("DELETE", "users/nothing", None, "administrator"),
    ("POST", "users/bulk-delete", {"users": []}, "administrator"),
    ("PUT", "permissions/own/guest", {"configure": "", "write": "", "read": ""}, "administrator"),
    ("DELETE", "permissions/own/nothing", None, "administrator"),
    ("PUT", "topic-permissions/own/guest", {"exchange": "x", "write": "", "read": ""}, "administrator"),
    ("DELETE", "topic-permissions/own/nothing", None, "administrator"),
    ("PUT", "policies/own/p", POLICY, "policymaker administrator"),
    ("DELETE", "policies/own/nothing", None, "policymaker administrator"),
    ("PUT", "policies/other/p", POLICY, "administrator"),
    ("PUT", "operator-policies/own/p", POLICY, "administrator"),
    ("DELETE", "operator-policies/own/nothing", None, "administrator"),
    ("PUT", "vhost-limits/own/max-queues", {"value": 5}, "administrator"),
    ("DELETE", "vhost-limits/own/max-queues", None, "administrator"),
    ("PUT", "user-limits/guest/max-channels", {"value": 5}, "administrator"),
    ("PUT", "parameters/shovel/own/x", {"value": 5}, "policymaker administrator"),
    ("PUT", "global-parameters/x", {"value": 5}, "administrator"),
    ("POST", "definitions", {}, "administrator"),
    ("POST", "definitions/own", {}, "administrator"),
    ("POST", "rebalance/queues", None, "administrator"),
    ("PUT", "cluster-name", {"name": "x"}, "administrator"),
    ("DELETE", "connections/username/nothing", None, "management policymaker monitoring administrator"),
)
"""Requests that change something, and those who may send them."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A node with two vhosts, and users of each tag who may open one of them."""
    directory = tmp_path_factory.mktemp("served")
    with Broker(directory, "http.port=0", "http.metrics=false"):
        api = Api.of(directory)
        for vhost in (OWN, OTHER):
            api.put(f"vhosts/{vhost}")
        for tag in TAGS:
            api.make_user(tag, "" if tag == "none" else tag, OWN)
        yield api


@pytest.mark.parametrize("tag", TAGS)
def test_reading(api: Api, tag: str) -> None:
    found = {path: api.status("GET", path, user=tag) for path in READ}
    assert found == {path: 200 if tag in users.split() else 401 for path, users in READ.items()}


@pytest.mark.parametrize("tag", TAGS)
def test_changing(api: Api, tag: str) -> None:
    for method, path, body, users in CHANGE:
        status = api.status(method, path, body, tag)
        assert (status != 401) == (tag in users.split()), (method, path, status)


def test_lists_have_what_a_user_sees(api: Api) -> None:
    for tag, vhosts in {
        "management": {OWN},
        "monitoring": {OWN, OTHER, "/"},
        "administrator": {OWN, OTHER, "/"},
    }.items():
        assert {each["name"] for each in api.get("vhosts", tag)} >= vhosts
        for path in ("exchanges", "bindings", "vhost-limits"):
            assert {each["vhost"] for each in api.get(path, tag)} <= {each["name"] for each in api.get("vhosts", tag)}
    assert {each["vhost"] for each in api.get("exchanges", "management")} == {OWN}
