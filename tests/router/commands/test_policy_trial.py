"""Trials of policies: the changes that a policy would make."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.control import Refusal
from penstock.limits.watermarks import Marks, QueueLimits
from tests.router.making import Asked, rabbit_hash


@pytest.fixture
def asked() -> Asked:
    asked = Asked()
    asked.done("exchange_declare", name="x")
    for name in ("a", "b"):
        asked.done("queue_declare", name=name)
    asked.done("queue_bind", queue="a", source="x")
    return asked


def fields(apply_to: str = "queues", vhost: str = "/", pattern: str = ".*", **definition: Any) -> dict[str, Any]:
    spelled = {key.replace("_", "-"): value for key, value in definition.items()}
    return {"vhost": vhost, "operator": False, "name": "p", "pattern": pattern, "apply_to": apply_to, "priority": 0,
            "definition": spelled}  # fmt: skip


def tried(asked: Asked, *arguments: str, **definition: Any) -> dict[str, Any]:
    """Return the trial; AssertionError if it left anything behind."""
    before = list(asked.topology.changes())
    found: dict[str, Any] = asked.command("policy_try", **fields(*arguments, **definition))
    assert list(asked.topology.changes()) == before
    return found


def test_queues_that_would_have_other_limits(asked: Asked) -> None:
    asked.done("queue_declare", name="c", arguments={"qpid.flow_stop_count": 5})
    trial = tried(asked, flow_stop_count=10)
    assert {each["name"]: QueueLimits.from_wire(each["limits"]).marks for each in trial["queues"]} == {
        "a": Marks(10, 8), "b": Marks(10, 8),
    }  # fmt: skip
    asked.command("policy_set", **fields(flow_stop_count=10))
    assert tried(asked, flow_stop_count=10) == {"queues": [], "shared": [], "rates": [], "powers": []}
    assert len(tried(asked, flow_stop_count=9)["queues"]) == 2


def test_inherited_and_shared_limits(asked: Asked) -> None:
    trial = tried(asked, "exchanges", "/", "^x$", max_length=10, sum_stop_count=5)
    assert [each["name"] for each in trial["queues"]] == ["a"]
    slot = asked.topology.queue("/", "a").slot  # type: ignore[union-attr]
    assert [(each["sort"], each["name"], each["stop_count"], each["slots"]) for each in trial["shared"]] == [
        ("exchange", "x", 5, [slot])
    ]
    for apply_to, vhost, name in (("vhosts", "", "/"), ("node", "", ""), ("users", "/", "guest")):
        trial = tried(asked, apply_to, vhost, deepest_stop_count=5)
        assert [(each["name"], each["how"]) for each in trial["shared"]] == [(name, "deepest")]


def test_limits_of_rates(asked: Asked) -> None:
    def rates(*arguments: str, **definition: Any) -> list[tuple[Any, ...]]:
        reported = tried(asked, *arguments, **definition)["rates"]
        return [tuple(each[field] for field in ("sort", "vhost", "name", "messages", "bytes")) for each in reported]

    asked.done("queue_declare", name="c", arguments={"x-max-rate": 10})
    assert rates(max_rate=20) == [("queue", "/", "a", 20, 0), ("queue", "/", "b", 20, 0)]
    assert rates(max_rate=5)[2:] == [("queue", "/", "c", 5, 0)]
    assert rates("exchanges", "/", "^x$", max_rate_bytes="10 kB") == [("exchange", "/", "x", 0, 10_000)]
    assert rates("routing_keys", "/", "^x$", max_rate=5, routing_key="k.*") == [("routing_key", "/", "x", 5, 0)]
    assert rates("users", "/", max_rate=5) == [("user", "/", "guest", 5, 0)]
    assert rates("vhosts", "", max_rate=5) == [("vhost", "/", "/", 5, 0)]
    assert rates("node", "", max_rate=5) == [("node", "", "", 5, 0)]
    other = fields("users", "/", max_rate=7) | {"name": "other", "priority": 1}
    asked.command("policy_set", **other)
    assert rates("users", "/", max_rate=5) == [], "another policy governs them"


def test_what_cannot_be_set_cannot_be_tried(asked: Asked) -> None:
    with pytest.raises(Refusal, match="there is no key 'max-lenght'; did you mean 'max-length'"):
        tried(asked, max_lenght=10)


def test_an_unprivileged_queue_would_hold_nobody_who_comes_by_its_binding(asked: Asked) -> None:
    asked.command("user_add", name="mallory", password_hash=rabbit_hash("m"), tags=[])
    asked.command("permission_set", user="mallory", vhost="/", configure=".*", write="^$", read=".*")
    asked.done("queue_bind", queue="b", source="x", user="mallory")
    refusing = [["x", "'mallory' may not write to exchange 'x'"]]

    def reported(**definition: Any) -> dict[str, Any]:
        trial = tried(asked, **definition)
        assert {each["queue_id"] for each in trial["powers"]} == {each["queue_id"] for each in trial["queues"]}
        return {each["name"]: (each["refusing"], each["anew"]) for each in trial["powers"]}

    assert reported(flow_stop_count=5) == {"a": ([], False), "b": (refusing, False)}
    assert reported(flow_stop_count=5, essential=True) == {"a": ([], False), "b": ([], False)}
    asked.command("policy_set", **fields(flow_stop_count=10, essential=True))
    assert reported(flow_stop_count=5) == {"a": ([], True), "b": (refusing, True)}
    asked.command("permission_set", user="mallory", vhost="/", configure=".*", write=".*", read=".*")
    assert reported(flow_stop_count=5) == {"a": ([], True), "b": ([], True)}


def test_what_a_queue_with_a_rate_could_do_is_told_as_well(asked: Asked) -> None:
    """Also if the rate exists already, and would be granted."""
    asked.command("user_add", name="mallory", password_hash=rabbit_hash("m"), tags=[])
    asked.command("permission_set", user="mallory", vhost="/", configure=".*", write="^$", read=".*")
    asked.done("queue_declare", name="slow", arguments={"x-max-rate": 10}, durable=True)
    asked.done("queue_declare", name="mine", arguments={"x-max-rate": 10}, exclusive=True)
    for queue in ("slow", "mine"):
        asked.done("queue_bind", queue=queue, source="x", user="mallory")
    refusing = [["x", "'mallory' may not write to exchange 'x'"]]

    def reported(**definition: Any) -> dict[str, Any]:
        trial = tried(asked, "queues", "/", "^(slow|mine)$", **definition)
        powers = {each["queue_id"]: each for each in trial["powers"]}
        assert powers.keys() == {each["queue_id"] for each in trial["rates"]}
        return {each["name"]: (each["weak"], each["refusing"]) for each in powers.values()}

    assert reported(max_rate=5) == {"slow": ("", refusing), "mine": ("exclusive queue", refusing)}
    assert reported(essential=True) == {"slow": ("", []), "mine": ("", [])}
    assert reported(essential=True, max_rate=5) == {"slow": ("", []), "mine": ("", [])}


def test_shared_limits_count_the_queues_that_would_have_power(asked: Asked) -> None:
    """A temporary queue counts only if a policy says that it may hold producers."""
    asked.done("queue_declare", name="mine", exclusive=True)
    asked.done("queue_bind", queue="mine", source="x")

    def counted(**definition: Any) -> set[str]:
        (limit,) = tried(asked, "exchanges", "/", "^x$", sum_stop_count=5, **definition)["shared"]
        slots = {queue.slot: queue.name for queue in asked.topology.queues()}
        return {slots[slot] for slot in limit["slots"]}

    assert counted() == {"a"}
    assert counted(essential=True) == {"a", "mine"}
