"""Delayed message exchanges as the authority has them: each with a delay queue, which has its limits."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.limits.features import QueueFeatures
from penstock.limits.watermarks import Marks, QueueLimits
from router.model.delaying import DELAY_QUEUE, delay_queue_of
from router.model.grants import has_power
from router.model.records import DELAYED_MESSAGE, DELAYED_TYPE, Queue
from tests.router.making import Asked

NAME = delay_queue_of("x")


def declare(asked: Asked, name: str = "x", kind: object = "topic", **more: Any) -> None:
    arguments = {DELAYED_TYPE: kind, **more.pop("arguments", {})}
    asked.done("exchange_declare", name=name, type=DELAYED_MESSAGE, arguments=arguments, **more)


def delay_queue(asked: Asked, name: str = "x") -> Queue | None:
    return asked.topology.queue("/", delay_queue_of(name))


def limits(asked: Asked) -> QueueLimits:
    queue = delay_queue(asked)
    assert queue is not None
    return QueueLimits.from_wire(queue.limits)


@pytest.mark.parametrize("durable", [True, False])
def test_it_comes_and_goes_with_its_exchange(durable: bool) -> None:
    asked = Asked()
    declare(asked, durable=durable)
    queue = delay_queue(asked)
    assert queue is not None and (queue.durable, queue.auto_delete, queue.owner) == (durable, False, None)
    assert QueueFeatures.from_wire(queue.features).type == DELAY_QUEUE and has_power(queue)
    declare(asked, durable=durable)
    assert delay_queue(asked) == queue, "a second declaration changes nothing"
    asked.done("exchange_delete", name="x")
    assert delay_queue(asked) is None and not asked.topology.queues()


def test_it_goes_with_an_auto_delete_exchange_and_with_its_vhost() -> None:
    asked = Asked()
    declare(asked, auto_delete=True)
    asked.done("queue_declare", name="q")
    asked.done("queue_bind", queue="q", source="x", key="k")
    asked.done("queue_unbind", queue="q", source="x", key="k")
    assert asked.topology.exchange("/", "x") is None and delay_queue(asked) is None
    asked.command("vhost_add", name="v")
    declare(asked, vhost="v")
    asked.command("vhost_delete", name="v")
    assert not [queue for queue in asked.topology.queues() if queue.vhost == "v"]


@pytest.mark.parametrize(
    ("kind", "more", "text"),
    [
        (None, {}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ("zz", {}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ([1], {}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        (DELAYED_MESSAGE, {}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ("x-consistent-hash", {"hash-property": "app_id"}, "Unsupported property: app_id"),
        ("direct", {"x-max-length": -1},
         "invalid arg 'x-max-length' for exchange 'x' in vhost '/': {value_negative,-1}"),
        ("direct", {"x-overflow": "last-value"},
         "invalid arg 'x-overflow' for exchange 'x' in vhost '/': invalid_overflow"),
    ],
)  # fmt: skip
def test_refused(kind: object, more: dict[str, Any], text: str) -> None:
    asked = Asked()
    before = list(asked.topology.changes())
    arguments = {DELAYED_TYPE: kind, **more}
    assert asked.refused("exchange_declare", name="x", type=DELAYED_MESSAGE, arguments=arguments) == (406, text)
    assert list(asked.topology.changes()) == before


def test_a_name_too_long_for_a_delay_queue() -> None:
    asked = Asked()
    declare(asked, "x" * 243)
    arguments = {DELAYED_TYPE: "direct"}
    code, text = asked.refused("exchange_declare", name="x" * 244, type=DELAYED_MESSAGE, arguments=arguments)
    assert code == 406 and "too long" in text


def test_no_exchange_without_its_queue() -> None:
    asked = Asked(shards=1, queues=1)
    asked.done("queue_declare", name="q")
    arguments = {DELAYED_TYPE: "direct"}
    _, text = asked.refused("exchange_declare", name="x", type=DELAYED_MESSAGE, arguments=arguments)
    assert "max_queues" in text
    assert asked.topology.exchange("/", "x") is None


def test_clients_neither_declare_nor_bind_it() -> None:
    asked = Asked()
    declare(asked)
    asked.done("queue_lookup", name=NAME)
    assert asked.refused("queue_bind", queue=NAME, source="x", key="k")[0] == 403
    assert asked.refused("queue_declare", name=delay_queue_of("y"))[0] == 403
    assert asked.topology.route("/", "", NAME) == (), "nothing reaches it past its exchange"


def test_its_limits_are_those_of_the_exchange_and_of_policies_for_delay_queues() -> None:
    asked = Asked()
    policy = {"vhost": "/", "pattern": ".*", "priority": 0, "operator": False}
    asked.command("policy_set", name="queues", apply_to="all", definition={"max-length": 3, "message-ttl": 5}, **policy)
    declare(asked)
    assert limits(asked) == QueueLimits(None, None, "flow", Marks.NONE)
    asked.done("exchange_delete", name="x")
    declare(asked, arguments={"x-flow-stop-count": 20, "x-flow-resume-count": 10})
    assert limits(asked).marks == Marks(20, 10, 0, 0)
    asked.command("policy_set", name="delays", apply_to="delay_queues", definition={"flow-stop-count": 15}, **policy)
    assert limits(asked).marks.stop_count == 15
    asked.command("policy_set", name="delays", apply_to="delay_queues", definition={"overflow": "reject-publish"},
                  **policy)  # fmt: skip
    assert limits(asked).overflow == "reject-publish"


def test_a_policy_of_delay_queues_has_no_keys_of_other_queues() -> None:
    asked = Asked()
    policy = {"vhost": "/", "pattern": ".*", "priority": 0, "operator": False, "name": "p", "apply_to": "delay_queues"}
    with pytest.raises(Exception, match="'message-ttl' does not apply to delay_queues"):
        asked.command("policy_set", definition={"message-ttl": 5}, **policy)


def test_definitions_have_the_exchange_alone() -> None:
    asked = Asked()
    declare(asked, durable=True)
    exported = asked.command("definitions_export", vhost=None)
    assert exported["queues"] == [] and [each["name"] for each in exported["exchanges"]] == ["x"]
    other = Asked()
    imported = other.command("definitions_import", definitions=exported, vhost=None, sections=None, skip_refused=False)
    assert imported["refused"] == [] and delay_queue(other) is not None


def test_both_are_there_after_a_restart() -> None:
    asked = Asked()
    declare(asked, durable=True)
    queue = delay_queue(asked)
    asked.start_again(5)
    assert delay_queue(asked) == queue and asked.topology.exchange("/", "x") is not None
