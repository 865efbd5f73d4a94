"""Policies over a topology: policies that are added, changed or removed take effect on what they govern."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import FlowDefaults, Marks, QueueLimits
from router.authority.governing import delete_policy, explain_policies, set_policy
from router.model.record_kind import Change
from router.model.records import Policy, Queue
from tests.router.making import Asked

DEFAULTS = FlowDefaults()


@pytest.fixture
def asked() -> Asked:
    return Asked()


def put(asked: Asked, name: str = "p", pattern: str = ".*", apply_to: str = "all", priority: int = 0,
        operator: bool = False, **definition: Any) -> list[Change]:  # fmt: skip
    """Set a policy; return the changes it made to what it governs."""
    spelled = {key.replace("_", "-"): value for key, value in definition.items()}
    set_policy(asked.authority.ledger, Policy("/", operator, name, pattern, apply_to, priority, spelled), DEFAULTS)
    return changes_made(asked)


def put_for_the_node(asked: Asked, apply_to: str, pattern: str = ".*", **definition: Any) -> list[Change]:
    spelled = {key.replace("_", "-"): value for key, value in definition.items()}
    set_policy(asked.authority.ledger, Policy("", False, "p", pattern, apply_to, 0, spelled), DEFAULTS)
    return changes_made(asked)


def remove(asked: Asked, name: str = "p", operator: bool = False) -> list[Change]:
    policy = asked.topology.policy("/", name, operator=operator)
    assert policy
    delete_policy(asked.authority.ledger, policy, DEFAULTS)
    return changes_made(asked)


def changes_made(asked: Asked) -> list[Change]:
    steps = asked.authority.ledger.take_steps()
    asked.recorded += steps
    return [step.change for step in steps if not step.change[0].startswith("policy")]


def queue(asked: Asked, name: str) -> Queue:
    found = asked.topology.queue("/", name)
    assert found
    return found


def limits(asked: Asked, name: str) -> QueueLimits:
    return QueueLimits.from_wire(queue(asked, name).limits)


def test_what_is_declared_later_is_governed(asked: Asked) -> None:
    assert put(asked, "bounds", "^a", "queues", max_length=5, message_ttl=7) == []
    for name in ("a", "b"):
        asked.done("queue_declare", name=name)
    assert [(queue(asked, name).policy, limits(asked, name).max_count) for name in "ab"] == [
        ("bounds", 5),
        (None, None),
    ]
    assert QueueFeatures.from_wire(queue(asked, "a").features).message_ttl == 7
    asked.done("queue_declare", name="a")


def test_what_is_there_follows_at_once(asked: Asked) -> None:
    for name in ("a", "b"):
        asked.done("queue_declare", name=name, durable=True, arguments={"x-max-length": 9})
    asked.done("exchange_declare", name="a")
    asked.done("queue_bind", queue="a", source="a")
    changed = put(asked, pattern="^a$", max_length=5)[-1]
    assert changed[:4] == ["queue", "/", "a", queue(asked, "a").queue_id]
    assert (limits(asked, "a").max_count, limits(asked, "b").max_count) == (5, 9)
    assert [found.name for found in asked.topology.route("/", "a", "")] == ["a"]
    assert put(asked, pattern="^a$", max_length=5) == []
    assert [change[2] for change in put(asked, pattern="^b", max_length=5)] == ["a", "a", "b"]
    assert (limits(asked, "a").max_count, limits(asked, "b").max_count) == (9, 5)
    assert [change[2] for change in remove(asked)] == ["b"]
    assert queue(asked, "b").policy is None


def test_priorities(asked: Asked) -> None:
    asked.done("queue_declare", name="q")
    put(asked, "low", max_length=5)
    put(asked, "high", priority=1, message_ttl=5)
    assert (queue(asked, "q").policy, limits(asked, "q").max_count) == ("high", None)
    remove(asked, "high")
    assert (queue(asked, "q").policy, limits(asked, "q").max_count) == ("low", 5)


def test_operator_policies_bound_policies(asked: Asked) -> None:
    asked.done("queue_declare", name="q")
    put(asked, "ours", max_length=50)
    put(asked, "bound", operator=True, max_length=20, flow_stop_count=30, overflow="flow")
    assert (queue(asked, "q").policy, queue(asked, "q").operator_policy) == ("ours", "bound")
    assert limits(asked, "q") == QueueLimits(20, None, "flow", Marks(20, 17))
    remove(asked, "ours")
    assert (queue(asked, "q").policy, queue(asked, "q").operator_policy) == (None, "bound")


def test_flow_marks_of_a_policy(asked: Asked) -> None:
    asked.done("queue_declare", name="plain")
    asked.done("queue_declare", name="limited", arguments={"x-max-length": 5})
    asked.done("queue_declare", name="dropping", arguments={"x-max-length": 5, "x-overflow": "drop-head"})
    put(asked, flow_stop_count=10, flow_resume_count=8)
    assert limits(asked, "plain") == QueueLimits(None, None, "flow", Marks(10, 8))
    assert limits(asked, "limited") == QueueLimits(5, None, "flow", Marks(5, 5))
    assert limits(asked, "dropping") == QueueLimits(5, None, "drop-head", Marks.NONE)


def test_alternate_exchange(asked: Asked) -> None:
    for name in ("x", "y"):
        asked.done("queue_declare", name=name)
        asked.done("exchange_declare", name=name)
    asked.done("exchange_declare", name="own", arguments={"alternate-exchange": "y"})
    for name in ("x", "y"):
        asked.done("queue_bind", queue=name, source=name, key="k")

    def routed(exchange: str) -> list[str]:
        return [found.name for found in asked.topology.route("/", exchange, "k")]

    put(asked, pattern="^(?!x$)", apply_to="exchanges", alternate_exchange="x")
    assert [routed(name) for name in ("own", "amq.fanout", "y", "x", "")] == [["y"], ["x"], ["y"], ["x"], []]
    remove(asked)
    assert [routed(name) for name in ("own", "amq.fanout")] == [["y"], []]


def test_a_declaration_is_equivalent_whatever_the_policy(asked: Asked) -> None:
    arguments = {"x-max-length": 9, "x-message-ttl": 100}
    asked.done("queue_declare", name="q", arguments=arguments)
    put(asked, max_length=5, message_ttl=5)
    asked.done("queue_declare", name="q", arguments=arguments)
    assert asked.refused("queue_declare", name="q", arguments={**arguments, "x-max-length": 5})[0] == 406


def test_a_policy_cannot_make_a_declaration_fail(asked: Asked) -> None:
    put(asked, flow_stop_count=10, flow_resume_count=10)
    asked.done("queue_declare", name="q", arguments={"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 5})
    assert limits(asked, "q").marks == Marks(5, 5)


def test_of_another_type_of_queue(asked: Asked) -> None:
    asked.done("queue_declare", name="c")
    asked.done("queue_declare", name="q", durable=True, arguments={"x-queue-type": "quorum"})
    put(asked, "quorum", apply_to="quorum_queues", delivery_limit=3, max_length=5)
    assert QueueFeatures.from_wire(queue(asked, "q").features).delivery_limit == 3
    assert queue(asked, "c").policy is None


def test_explained(asked: Asked) -> None:
    asked.done("queue_declare", name="q", arguments={"x-max-length": 5, "x-overflow": "drop-head"})
    put(asked, "ours", max_length=9, message_ttl=3, ha_mode="all", delivery_limit=1, overflow="flow", flow_stop_count=4)
    put(asked, "bound", operator=True, max_length=20)
    put(asked, "other", priority=-1, max_length=1)
    put(asked, "elsewhere", pattern="^z", max_length=1)
    reported = explain_policies(queue(asked, "q"), asked.topology)
    assert (reported["policy"], reported["operator_policy"], reported["others"]) == ("ours", "bound", ["other"])
    assert {each["key"]: each["effect"] for each in reported["keys"]} == {
        "max-length": "none: the declaration says 5",
        "message-ttl": "yes",
        "ha-mode": "none: accepted for RabbitMQ's sake",
        "delivery-limit": "none: it is not for classic queues",
        "overflow": "none: the declaration says 'drop-head'",
        "flow-stop-count": "none: the overflow is 'drop-head'",
    }
    exchange = asked.topology.exchange("/", "amq.fanout")
    assert exchange
    reported = explain_policies(exchange, asked.topology)
    assert reported["policy"] == "ours" and reported["keys"][0]["effect"] == "none: it is not for exchanges"


def bound(asked: Asked, exchange: str, *queues: str) -> None:
    asked.done("exchange_declare", name=exchange)
    for name in queues:
        asked.done("queue_declare", name=name)
        asked.done("queue_bind", queue=name, source=exchange)


def test_queues_inherit_from_the_exchanges_that_route_to_them(asked: Asked) -> None:
    bound(asked, "x", "a", "b")
    asked.done("queue_declare", name="own", arguments={"qpid.max_count": 7})
    asked.done("queue_bind", queue="own", source="x")
    asked.done("queue_declare", name="c")
    assert [change[2] for change in put(asked, pattern="^x$", apply_to="exchanges", max_length=10)] == ["x", "a", "b"]
    found = {name: limits(asked, name) for name in ("a", "b", "c", "own")}
    inherited = QueueLimits(10, None, "flow", Marks(8, 7))
    assert found == {
        "a": inherited,
        "b": inherited,
        "c": QueueLimits(None, None, "flow", Marks.NONE),
        "own": QueueLimits(7, None, "flow", Marks(5, 4)),
    }
    put(asked, "nearer", pattern="^a$", apply_to="queues", flow_stop_count=3)
    assert limits(asked, "a") == QueueLimits(None, None, "flow", Marks(3, 2))
    remove(asked, "nearer")
    assert limits(asked, "a") == inherited
    assert len(remove(asked)) == 3
    assert not limits(asked, "a").marks


def test_bindings_that_come_and_go_change_what_is_inherited(asked: Asked) -> None:
    bound(asked, "x", "a")
    bound(asked, "y", "b")
    put(asked, pattern="^x$", apply_to="exchanges", max_length=10)
    asked.done("exchange_bind", destination="y", source="x")
    assert limits(asked, "b").max_count == 10
    asked.done("exchange_unbind", destination="y", source="x")
    assert limits(asked, "b").max_count is None
    asked.done("queue_bind", queue="b", source="x", key="k")
    assert limits(asked, "b").max_count == 10
    asked.done("queue_unbind", queue="b", source="x", key="k")
    assert limits(asked, "b").max_count is None
    asked.done("exchange_delete", name="x")
    assert limits(asked, "a").max_count is None


def test_of_several_exchanges_the_policy_of_the_highest_priority_counts(asked: Asked) -> None:
    bound(asked, "x", "a")
    bound(asked, "y", "a")
    put(asked, "b", pattern="^x$", apply_to="exchanges", max_length=10)
    put(asked, "a", pattern="^y$", apply_to="exchanges", max_length=20)
    assert limits(asked, "a").max_count == 20
    put(asked, "b", pattern="^x$", apply_to="exchanges", max_length=10, priority=1)
    assert limits(asked, "a").max_count == 10


def test_a_policy_for_all_says_nothing_for_the_queues_of_an_exchange(asked: Asked) -> None:
    bound(asked, "x", "a")
    put(asked, pattern="^x$", max_length=10)
    assert limits(asked, "a").max_count is None


def test_vhost_and_node(asked: Asked) -> None:
    bound(asked, "x", "a")
    put_for_the_node(asked, "node", max_length=30, flow_stop_count="50 %")
    assert limits(asked, "a") == QueueLimits(30, None, "flow", Marks(15, 15))
    set_policy(asked.authority.ledger, Policy("", False, "v", "^/$", "vhosts", 0, {"capacity": "1 KiB"}), DEFAULTS)
    assert limits(asked, "a") == QueueLimits(None, None, "flow", Marks(0, 0, 1024, 896))
    put(asked, pattern="^x$", apply_to="exchanges", max_length=10)
    assert limits(asked, "a") == QueueLimits(10, None, "flow", Marks(5, 5))
    asked.done("queue_declare", name="new")
    assert limits(asked, "new").marks == Marks(0, 0, 1024, 896)
    asked.command("policy_delete", vhost="", operator=False, name="v")
    assert limits(asked, "new").max_count == 30
    assert [each["name"] for each in asked.command("policy_list", vhost="")] == ["p"]
