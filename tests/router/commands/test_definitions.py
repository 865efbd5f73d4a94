"""Definitions are imported whole or not at all, and exported so that another node becomes the same."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.control import Refusal
from router.authority.vhosts import PREDECLARED
from tests.router.making import Asked, rabbit_hash

HASH = rabbit_hash("x").removeprefix("sha256:")
DEFINITIONS: dict[str, Any] = {
    "vhosts": [{"name": "/"}, {"name": "v", "metadata": {"description": "of orders", "tags": ["eu"]}}],
    "users": [
        {"name": "guest", "password_hash": HASH, "tags": ["administrator"]},
        {"name": "bob", "password_hash": "", "tags": ["custom"], "limits": {"max-connections": 3}},
    ],
    "permissions": [{"user": "bob", "vhost": "v", "configure": "c", "write": "w", "read": "^(?!amq\\.).*"}],
    "topic_permissions": [
        {"user": "bob", "vhost": "v", "exchange": "amq.topic", "write": "^{username}\\.", "read": ".*"}
    ],
    "parameters": [{"component": "vhost-limits", "vhost": "v", "name": "limits", "value": {"max-queues": 7}}],
    "policies": [{"vhost": "v", "name": "p", "pattern": "^q", "definition": {"max-length": 5, "overflow": "flow"}}],
    "operator_policies": [{"vhost": "v", "name": "o", "pattern": ".*", "definition": {"max-length": 50}}],
    "exchanges": [
        {"vhost": "v", "name": "x", "type": "topic", "arguments": {"alternate-exchange": "y"}},
        {"vhost": "v", "name": "y", "type": "fanout", "internal": True},
    ],
    "queues": [
        {"vhost": "v", "name": "q", "arguments": {"x-message-ttl": 60000, "other": [1, {"a": 1.5}, None, True]}},
        {"vhost": "v", "name": "amq.gen-jNTy", "durable": True},
        {"vhost": "v", "name": "transient", "durable": False, "auto_delete": True},
    ],
    "bindings": [
        {"vhost": "v", "source": "x", "destination": "q", "destination_type": "queue", "routing_key": "a.#"},
        {"vhost": "v", "source": "x", "destination": "y", "destination_type": "exchange", "routing_key": "b"},
        {"vhost": "v", "source": "amq.headers", "destination": "q", "arguments": {"x-match": "any", "h": 5}},
    ],
}
NUMBERS = {
    "vhosts": 2, "users": 2, "permissions": 1, "topic_permissions": 1, "limits": 2, "policies": 2, "exchanges": 2,
    "queues": 3, "bindings": 3,
}  # fmt: skip


def imported(asked: Asked, definitions: dict[str, Any], **more: Any) -> Any:
    arguments = {"vhost": None, "sections": None, "skip_refused": False, **more}
    return asked.command("definitions_import", definitions=definitions, **arguments)


def with_one_more(name: str, value: object) -> dict[str, Any]:
    """The definitions with one more record in a section."""
    return {**DEFINITIONS, name: [*DEFINITIONS[name], value]}


def test_everything_is_imported() -> None:
    asked = Asked()
    assert imported(asked, DEFINITIONS) == {"imported": NUMBERS, "refused": [], "ignored": []}
    users, topology = asked.topology.users, asked.topology
    assert users.may("bob", "v", "read", "q") and not users.may("bob", "v", "read", "amq.q")
    assert len(topology.exchanges_in("v")) == len(PREDECLARED) + 2
    queue = topology.queue("v", "q")
    assert queue is not None and (queue.policy, queue.durable, queue.maker) == ("p", True, None)
    assert {binding.source for binding in topology.bindings_to("v", "queue", "q")} == {"x", "amq.headers"}


def test_a_second_import_changes_nothing() -> None:
    asked = Asked()
    imported(asked, DEFINITIONS)
    before = asked.command("definitions_export", vhost=None)
    assert imported(asked, DEFINITIONS)["imported"] == NUMBERS
    assert asked.command("definitions_export", vhost=None) == before


def test_an_exported_node_is_imported_as_the_same() -> None:
    asked, other = Asked(), Asked()
    imported(asked, DEFINITIONS)
    asked.command(
        "policy_set", vhost="", operator=False, name="n", pattern=".*", apply_to="node", priority=0,
        definition={"max-length": 9},
    )  # fmt: skip
    asked.done("queue_declare", vhost="v", name="mine", exclusive=True, connection="0.1.1")
    asked.done("queue_bind", vhost="v", queue="mine", source="x", key="k", connection="0.1.1")
    exported = asked.command("definitions_export", vhost=None)
    assert imported(other, exported)["refused"] == []
    assert other.command("definitions_export", vhost=None) == exported
    assert [queue["name"] for queue in exported["queues"]] == ["amq.gen-jNTy", "q", "transient"]
    assert len(exported["bindings"]) == 3 and len(exported["node_policies"]) == 1


def test_one_vhost_is_exported_without_users_and_imported_into_another() -> None:
    asked = Asked()
    imported(asked, DEFINITIONS)
    asked.command("vhost_add", name="w")
    exported = asked.command("definitions_export", vhost="v")
    assert "users" not in exported and exported["vhosts"] == DEFINITIONS["vhosts"][1:]
    found = imported(asked, exported, vhost="w", sections=["limits", "policies", "exchanges", "queues", "bindings"])
    assert found["imported"] == {"limits": 1, "policies": 2, "exchanges": 2, "queues": 3, "bindings": 3}
    again = asked.command("definitions_export", vhost="w")
    assert [{**each, "vhost": "v"} for each in again["bindings"]] == exported["bindings"]


@pytest.mark.parametrize(
    ("section", "record", "text"),
    [
        ("vhosts", {"name": ""}, "vhost '': the vhost name cannot be empty"),
        (
            "permissions",
            {"user": "eve", "vhost": "v", "configure": "", "write": "", "read": ""},
            "permission of user 'eve' in vhost 'v': there is no user 'eve'",
        ),
        (
            "topic_permissions",
            {"user": "bob", "vhost": "none", "exchange": "x", "write": "", "read": ""},
            "topic permission of user 'bob' in vhost 'none': there is no vhost 'none'",
        ),
        (
            "policies",
            {"vhost": "v", "name": "h", "pattern": ".*", "definition": {"ha-nodes": 3}},
            "policy 'h' in vhost 'v': invalid policy 'h' in vhost 'v': there is no key 'ha-nodes'",
        ),
        (
            "exchanges",
            {"vhost": "v", "name": "z", "type": "x-unheard-of"},
            "exchange 'z' in vhost 'v': unknown exchange type 'x-unheard-of'",
        ),
        (
            "queues",
            {"vhost": "v", "name": "s", "type": "stream"},
            "queue 's' in vhost 'v': invalid arg 'x-queue-type' for queue 's' in vhost 'v'",
        ),
        ("queues", {"vhost": "none", "name": "s"}, "queue 's' in vhost 'none': there is no vhost 'none'"),
        ("queues", {"vhost": "v", "name": "amq.x"}, "queue 'amq.x' in vhost 'v': queue name 'amq.x' contains reserved"),
        (
            "bindings",
            {"vhost": "v", "source": "none", "destination": "q"},
            "binding of queue 'q' to exchange 'none' in vhost 'v': no exchange 'none' in vhost 'v'",
        ),
    ],
)
def test_an_import_is_all_or_nothing_unless_the_refused_are_skipped(
    section: str, record: dict[str, Any], text: str
) -> None:
    asked = Asked()
    before = len(asked.recorded)
    definitions = with_one_more(section, record)
    found = imported(asked, definitions)
    assert found["imported"] == {} and len(found["refused"]) == 1
    assert found["refused"][0].startswith(text)
    assert len(asked.recorded) == before
    assert imported(asked, definitions, skip_refused=True) == {**found, "imported": NUMBERS}


def test_a_queue_that_exists_with_other_properties_is_refused_and_stays() -> None:
    asked = Asked()
    asked.command("vhost_add", name="v")
    asked.done("queue_declare", vhost="v", name="q", durable=False)
    (text,) = imported(asked, DEFINITIONS)["refused"]
    assert text.startswith("queue 'q' in vhost 'v': inequivalent arg 'durable'")
    imported(asked, DEFINITIONS, skip_refused=True)
    queue = asked.topology.queue("v", "q")
    assert queue is not None and not queue.durable
    assert asked.topology.bindings_to("v", "queue", "q")


def test_malformed_arguments_change_nothing() -> None:
    asked = Asked()
    before = len(asked.recorded)
    for definitions, more, text in (
        ({"queues": {}}, {}, "queues is not a list"),
        (DEFINITIONS, {"vhost": "none"}, "there is no vhost 'none'"),
        (DEFINITIONS, {"sections": ["users", 5]}, "there is no section 5; there are vhosts, users"),
    ):
        with pytest.raises(Refusal, match=text):
            imported(asked, definitions, **more)
    assert len(asked.recorded) == before


def test_only_some_sections_are_imported() -> None:
    asked = Asked()
    assert imported(asked, DEFINITIONS, sections=["vhosts", "users"])["imported"] == {"vhosts": 2, "users": 2}
    assert not asked.topology.users.permissions(user="bob")
