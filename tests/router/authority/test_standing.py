"""Queues that may stop producers, and the source of that permission."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.limits.features import UNCONSUMED, QueueFeatures
from tests.router.making import ME, Asked

MARKS = {"x-overflow": "flow", "x-max-length": 10}


@pytest.fixture
def asked() -> Asked:
    return Asked()


def features(asked: Asked, name: str) -> QueueFeatures:
    queue = asked.topology.queue("/", name)
    assert queue is not None
    return QueueFeatures.from_wire(queue.features)


def declare(asked: Asked, name: str = "q", **options: Any) -> QueueFeatures:
    name = asked.done("queue_declare", name=name, connection=ME, **options)["name"]
    return features(asked, name)


def set_policy(asked: Asked, apply_to: str = "queues", operator: bool = False, **definition: Any) -> None:
    vhost = "" if apply_to in ("vhosts", "node") else "/"
    asked.command("policy_set", vhost=vhost, operator=operator, name="p", pattern=".*", apply_to=apply_to, priority=0,
                  definition={key.replace("_", "-"): value for key, value in definition.items()})  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options", "unprivileged_reason"),
    [
        ("q", {"durable": True}, None),
        ("q", {"durable": True, "arguments": MARKS}, None),
        ("q", {"exclusive": True}, "exclusive queue"),
        ("q", {"exclusive": True, "arguments": MARKS}, "exclusive queue"),
        ("", {"arguments": MARKS}, "server-named queue"),
        ("q", {"durable": True, "auto_delete": True, "arguments": MARKS}, "auto-delete queue"),
        ("q", {}, UNCONSUMED),
        ("q", {"arguments": MARKS}, None),
        ("q", {"arguments": {"qpid.flow_stop_count": 5}}, None),
        ("q", {"arguments": {"x-essential": True}}, None),
        ("q", {"exclusive": True, "arguments": {**MARKS, "x-essential": True}}, "exclusive queue"),
    ],
)
def test_what_a_queue_is_by_itself(
    asked: Asked, name: str, options: dict[str, Any], unprivileged_reason: str | None
) -> None:
    assert declare(asked, name, **options).unprivileged_reason == unprivileged_reason


@pytest.mark.parametrize("apply_to", ["queues", "exchanges", "vhosts", "node"])
@pytest.mark.parametrize("definition", [{"overflow": "flow"}, {"essential": True}])
def test_a_policy_decides(asked: Asked, apply_to: str, definition: dict[str, Any]) -> None:
    asked.done("exchange_declare", name="x")
    assert declare(asked, exclusive=True, arguments=MARKS).unprivileged_reason
    asked.done("queue_bind", queue="q", source="x")
    set_policy(asked, apply_to, **definition)
    found = features(asked, "q")
    assert (found.unprivileged_reason, found.essential) == (None, "essential" in definition)


def test_a_limit_by_policy_is_no_decision_for_temporary_queues(asked: Asked) -> None:
    set_policy(asked, max_length=10)
    assert declare(asked, "own", exclusive=True).unprivileged_reason == "exclusive queue"
    assert declare(asked, "named").unprivileged_reason is None


def test_a_limit_that_is_inherited_is_no_decision(asked: Asked) -> None:
    set_policy(asked, "vhosts", max_length=10)
    assert declare(asked).unprivileged_reason == UNCONSUMED


@pytest.mark.parametrize("apply_to", ["exchanges", "vhosts", "node"])
@pytest.mark.parametrize("overflow", ["flow", "reject-publish"])
def test_an_inherited_overflow_decides_for_all_alike(asked: Asked, apply_to: str, overflow: str) -> None:
    """The overflow decides for temporary queues and for those that nobody has consumed from."""
    asked.done("exchange_declare", name="x")
    for name, options in (("own", {"exclusive": True}), ("plain", {})):
        declare(asked, name, **options)
        asked.done("queue_bind", queue=name, source="x")
    set_policy(asked, apply_to, overflow=overflow, max_length=10)
    for name in ("own", "plain"):
        found = features(asked, name)
        assert (found.unprivileged_reason, found.granted, found.chosen) == (None, False, False)


@pytest.mark.parametrize(
    ("options", "policy", "granted", "chosen"),
    [
        ({}, {}, False, False),
        ({"arguments": MARKS}, {}, False, True),
        ({"arguments": {"qpid.flow_stop_count": 5}}, {}, False, True),
        ({"arguments": {"x-throttle": "pause"}}, {}, False, False),
        ({"arguments": MARKS, "exclusive": True}, {}, False, False),
        ({"arguments": {"x-essential": True}}, {}, False, False),
        ({}, {"overflow": "flow", "max_length": 5}, True, True),
        ({}, {"max_length": 5}, False, True),
        ({}, {"essential": True}, True, False),
        ({"arguments": {"x-essential": True}}, {"essential": True}, True, False),
        ({"arguments": {"x-overflow": "reject-publish", "x-max-length": 1}}, {"overflow": "flow"}, False, True),
        ({"exclusive": True}, {"overflow": "ring-strict"}, True, True),
        ({"exclusive": True}, {"overflow": "ring"}, False, True),
    ],
)
def test_who_grants_it_and_who_chose_it(
    asked: Asked, options: dict[str, Any], policy: dict[str, Any], granted: bool, chosen: bool
) -> None:
    if policy:
        set_policy(asked, **policy)
    found = declare(asked, **options)
    assert (found.granted, found.chosen) == (granted, chosen)


def test_essential(asked: Asked) -> None:
    assert declare(asked, "a", durable=True, arguments={"x-essential": True}).essential
    set_policy(asked, operator=True, essential=True)
    assert declare(asked, "b", exclusive=True).essential
    assert not declare(asked, "c", durable=True, arguments={"x-essential": False}).essential


def test_essential_is_a_switch(asked: Asked) -> None:
    error = asked.ask("queue_declare", name="q", arguments={"x-essential": "yes"}).error
    assert error == [406, "invalid arg 'x-essential' for queue 'q' in vhost '/': {unacceptable_type,longstr}"]


def reported(asked: Asked, name: str) -> dict[str, tuple[Any, str]]:
    settings = asked.command("flow_explain", vhost="/", name=name)["settings"]
    return {each["setting"]: (each["value"], each["source"]) for each in settings}


def test_explained(asked: Asked) -> None:
    declare(asked, "own", exclusive=True, arguments=MARKS)
    declare(asked, "plain")
    declare(asked, "ring", arguments={"x-overflow": "ring", "x-max-length": 1})
    assert reported(asked, "own")["overflow"] == ("spill, then ring", "declaration: x-overflow")
    assert reported(asked, "own")["stops-producers"] == ("no", "exclusive queue")
    assert reported(asked, "plain")["stops-producers"] == ("once consumed from", UNCONSUMED)
    assert reported(asked, "ring")["stops-producers"] == ("no", "overflow ring")
    set_policy(asked, essential=True)
    assert reported(asked, "own")["overflow"] == ("flow", "declaration: x-overflow")
    assert reported(asked, "own")["stops-producers"] == ("always", "policy 'p': essential")
