"""Documents of definitions: what RabbitMQ exports is read, and what is malformed is named with its place."""

from __future__ import annotations

from typing import Any

import pytest

from router.commands.document import Document, DocumentError, read
from tests.router.making import rabbit_hash

HASH = rabbit_hash("x")
USER = {"name": "bob", "password_hash": HASH.removeprefix("sha256:"), "tags": ["management", "custom"]}
POLICY: dict[str, Any] = {
    "vhost": "v", "name": "p", "pattern": "^q", "apply-to": "queues", "definition": {"max-length": 5}, "priority": 2,
}  # fmt: skip
FIELDS = {
    "vhost": "v", "operator": False, "name": "p", "pattern": "^q", "apply_to": "queues", "priority": 2,
    "definition": {"max-length": 5},
}  # fmt: skip

OPERATOR = {"vhost": "v", "component": "operator_policy", "name": "p"}


def test_accounts_are_read() -> None:
    topic = {"user": "bob", "vhost": "v", "exchange": "x", "write": "a", "read": "b"}
    permission = {"user": "bob", "vhost": "v", "configure": "c", "write": "w", "read": "r"}
    old = {**USER, "name": "old", "tags": "administrator, monitoring", "password_hash": ""}
    found = read(
        {
            "rabbitmq_version": "4.0.1",
            "users": [{**USER, "limits": {"max-connections": 5}}, old],
            "vhosts": [{"name": "v", "limits": [], "metadata": {"tags": []}, "default_queue_type": "classic"}],
            "permissions": [{**permission, "more": 1}],
            "topic_permissions": [topic],
            "parameters": [
                {"component": "vhost-limits", "vhost": "v", "name": "limits", "value": {"max-queues": 7}},
            ],
        }
    )
    assert found == Document(
        vhosts=[{"name": "v", "tags": []}],
        users=[
            {"name": "bob", "password_hash": HASH, "tags": ["management", "custom"]},
            {"name": "old", "password_hash": "", "tags": ["administrator", "monitoring"]},
        ],
        permissions=[permission],
        topic_permissions=[topic],
        limits=[
            {"scope": "user", "name": "bob", "limits": {"max-connections": 5}},
            {"scope": "vhost", "name": "v", "limits": {"max-queues": 7}},
        ],
    )


def test_declarations_are_read() -> None:
    found = read(
        {
            "exchanges": [{"vhost": "v", "name": "x", "type": "topic", "durable": False, "auto_delete": True}],
            "queues": [
                {"vhost": "v", "name": "q", "durable": True, "auto_delete": False, "arguments": {"x-expires": 9}},
                {"vhost": "v", "name": "r", "type": "quorum", "arguments": []},
            ],
            "bindings": [
                {"vhost": "v", "source": "", "destination": "q", "routing_key": "q"},
                {"vhost": "v", "source": "x", "destination": "y", "destination_type": "exchange", "routing_key": "k"},
            ],
        }
    )
    usual = {"vhost": "v", "durable": True, "auto_delete": False}
    assert found == Document(
        exchanges=[
            {
                "vhost": "v", "name": "x", "type": "topic", "durable": False, "auto_delete": True, "internal": False,
                "arguments": {},
            },
        ],
        queues=[
            {**usual, "name": "q", "arguments": {"x-expires": 9}},
            {**usual, "name": "r", "arguments": {"x-queue-type": "quorum"}},
        ],
        bindings=[
            {"vhost": "v", "source": "x", "kind": "exchange", "destination": "y", "key": "k", "arguments": {}},
        ],
    )  # fmt: skip


def test_operator_policies_stand_in_one_of_two_places_and_those_of_the_node_in_a_third() -> None:
    operator = {**FIELDS, "operator": True}
    parameter = {**OPERATOR, "value": {**POLICY}}
    assert read({"policies": [POLICY]}).policies == [FIELDS]
    assert read({"policies": [], "parameters": [parameter]}).policies == [operator]
    pairs = {**parameter, "value": {**POLICY, "definition": [["max-length", 5]]}}
    assert read({"parameters": [pairs]}).policies == [operator]
    assert read({"operator_policies": [POLICY]}).policies == [operator]
    assert read({"node_policies": [POLICY]}).policies == [{**FIELDS, "vhost": ""}]


def test_definitions_of_a_vhost_do_not_name_it() -> None:
    without = {name: value for name, value in POLICY.items() if name not in ("vhost", "priority", "apply-to")}
    assert read({"policies": [without]}).policies == [{**FIELDS, "vhost": "/", "priority": 0, "apply_to": "all"}]
    assert read({"policies": [POLICY]}, "w").policies == [{**FIELDS, "vhost": "w"}]
    assert read({"queues": [{"name": "q"}]}, "w").queues[0]["vhost"] == "w"


def test_what_has_no_meaning_here_is_named() -> None:
    found = read(
        {
            "parameters": [{"component": "shovel", "vhost": "/", "name": "s", "value": {}}],
            "global_parameters": [{"name": "cluster_name", "value": "rabbit"}, 5],
            "vhosts": [{"name": "v", "default_queue_type": "quorum"}],
            "unheard_of": {},
        }
    )
    assert found.ignored == [
        "parameter: shovel 's' in vhost '/'", "global_parameters: cluster_name", "global_parameters",
        "vhost 'v': default_queue_type quorum", "unheard_of",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("definitions", "text"),
    [
        ([], "these are no definitions: not a JSON object"),
        ({"users": {}}, "users is not a list"),
        ({"users": [USER, {"name": "eve"}]}, "users, number 2: no password_hash"),
        ({"users": [{**USER, "tags": [1]}]}, "users, number 1: tags cannot be [1]"),
        ({"vhosts": ["v"]}, "vhosts, number 1: not an object"),
        ({"policies": [{**POLICY, "priority": True}]}, "policies, number 1: priority cannot be True"),
        ({"parameters": [{**OPERATOR, "value": {**POLICY, "definition": [["x"]]}}]}, "definition cannot be [['x']]"),
        ({"queues": [{"name": ""}]}, "queues, number 1: the name is empty"),
        ({"queues": [{"name": "q", "durable": 1}]}, "queues, number 1: durable cannot be 1"),
        ({"queues": [{"name": "\ud800"}]}, "queues, number 1: '\\ud800' is not UTF-8"),
        ({"queues": [{"name": "q", "arguments": {"x": [{"y": "\ud800"}]}}]}, "number 1: '\\ud800' is not UTF-8"),
        ({"queues": [{"name": "q", "arguments": {"x": 2**63}}]}, "9223372036854775808 does not fit into 64 bits"),
        ({"bindings": [{"source": "x", "destination": "q", "destination_type": "cat"}]}, "cannot be 'cat'"),
        ({"users": [{**USER, "hashing_algorithm": "rabbit_password_hashing_md5"}]}, "user 'bob': hashing algorithm"),
        ({"users": [{**USER, "password_hash": "x"}]}, "user 'bob': the sha256 password hash is not base64"),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(definitions: Any, text: str) -> None:
    with pytest.raises(DocumentError) as refused:
        read(definitions)
    assert text in str(refused.value)
