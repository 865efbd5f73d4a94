"""Limits over several queues: their owners, and the queues that each of them covers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.limits.watermarks import FlowDefaults
from router.model.records import Policy
from router.model.shared_limits import (
    WAYS_MAX,
    SharedLimit,
    counted,
    covering,
    limits_of_policy,
    queues_of,
    same_limit,
    says_something,
    shared_limits,
)
from tests.router.making import Asked, policy

DEFAULTS = FlowDefaults()


@pytest.fixture
def asked() -> Asked:
    asked = Asked()
    for name in ("x", "y"):
        asked.done("exchange_declare", name=name, type="topic")
    for name in ("a", "b", "c"):
        asked.done("queue_declare", name=name, durable=True)
    return asked


def put(asked: Asked, name: str, apply_to: str, pattern: str = ".*", vhost: str = "/", **definition: Any) -> Policy:
    made = policy(name, pattern, apply_to, **definition)
    made = Policy(vhost, False, name, pattern, apply_to, 0, made.definition)
    asked.topology.apply(made.change())
    return made


def of_publish(asked: Asked, *exchanges: str, key: str = "", user: str = "guest") -> list[SharedLimit]:
    return list(shared_limits(asked.topology, "/", exchanges, key, user, DEFAULTS))


def covered(asked: Asked, limit: SharedLimit) -> list[str]:
    return sorted(queue.name for queue in queues_of(limit, asked.topology))


def bind(asked: Asked, queue: str, source: str, key: str, user: str | None = "guest") -> None:
    asked.done("queue_bind", queue=queue, source=source, key=key, user=user)


def test_a_publish_has_the_limits_of_all_its_owners(asked: Asked) -> None:
    put(asked, "exchange", "exchanges", "^x$", sum_stop_count=10, deepest_stop_count=5, hold="reject")
    put(asked, "keys", "routing_keys", "^x$", routing_key="^a", sum_length=100)
    put(asked, "user", "users", "^guest$", sum_stop_size="1 KiB")
    put(asked, "vhost", "vhosts", vhost="", sum_stop_count=20)
    put(asked, "node", "node", "", vhost="", deepest_stop_count=30)
    found = of_publish(asked, "", "x", "y", key="a")
    assert [(str(limit), limit.shared, limit.policy) for limit in found] == [
        ("exchange 'x' in vhost '/'", "sum", "exchange"),
        ("exchange 'x' in vhost '/'", "deepest", "exchange"),
        ("routing keys ^a of exchange 'x' in vhost '/'", "sum", "keys"),
        ("user 'guest' in vhost '/'", "sum", "user"),
        ("vhost '/'", "sum", "vhost"),
        ("the node", "deepest", "node"),
    ]
    assert [limit.marks.stop_count for limit in found] == [10, 5, 80, 0, 20, 30]
    assert found[0].hold == "reject" and found[2].hold == "forever"
    assert [limit.policy for limit in of_publish(asked, "y", key="a", user="bob")] == ["vhost", "node"]


def test_an_exchange_covers_the_queues_behind_it_and_keys_those_that_they_reach(asked: Asked) -> None:
    put(asked, "exchange", "exchanges", "^x$", sum_length=9)
    put(asked, "keys", "routing_keys", "^x$", routing_key="^news\\.", sum_length=9)
    bind(asked, "a", "x", "news.#")
    bind(asked, "b", "y", "sport.#")
    asked.done("exchange_bind", source="x", destination="y", key="#", user="guest")
    asked.done("exchange_bind", source="y", destination="x", key="#", user="guest")
    exchange, keys = of_publish(asked, "x", key="news.a")
    assert (covered(asked, exchange), covered(asked, keys)) == (["a", "b"], ["a"])
    bind(asked, "c", "y", "*.late")
    assert (covered(asked, exchange), covered(asked, keys)) == (["a", "b", "c"], ["a", "c"])
    asked.done("exchange_delete", name="x")
    assert covered(asked, exchange) == []


def test_a_vhost_and_the_node_cover_all_their_queues_and_a_user_is_not_known(asked: Asked) -> None:
    asked.command("vhost_add", name="v")
    asked.done("queue_declare", name="d", vhost="v")
    put(asked, "user", "users", sum_length=9)
    put(asked, "vhost", "vhosts", vhost="", sum_length=9)
    put(asked, "node", "node", "", vhost="", sum_length=9)
    assert [covered(asked, limit) for limit in of_publish(asked)] == [[], ["a", "b", "c"], ["a", "b", "c", "d"]]
    gone = of_publish(asked)[1]._replace(vhost="gone", name="gone")
    assert covered(asked, gone) == []


def test_a_queue_without_power_does_not_count(asked: Asked) -> None:
    put(asked, "p", "exchanges", "^x$", sum_length=9)
    bind(asked, "a", "x", "#")
    bind(asked, "b", "x", "#", user="nobody")
    bind(asked, "c", "x", "#", user=None)
    (limit,) = of_publish(asked, "x")
    assert covered(asked, limit) == ["a", "c"]


def test_exchanges_bound_in_very_many_ways_count_as_reached_by_any_key(asked: Asked) -> None:
    put(asked, "keys", "routing_keys", "^x$", routing_key="^k", sum_length=9)
    (limit,) = of_publish(asked, "x", key="k")
    bind(asked, "a", "y", "other")
    for number in range(WAYS_MAX):
        asked.done("exchange_bind", source="x", destination="y", key=f"k{number}", user="guest")
    assert covered(asked, limit) == []
    asked.done("exchange_bind", source="x", destination="y", key="k.more", user="guest")
    assert covered(asked, limit) == ["a"]


def test_a_queue_is_covered_by_the_limits_on_the_way_to_it(asked: Asked) -> None:
    put(asked, "exchange", "exchanges", "^x$", sum_length=9)
    put(asked, "keys", "routing_keys", "^x$", routing_key="^b", sum_length=9)
    put(asked, "vhost", "vhosts", vhost="", sum_length=9)
    bind(asked, "a", "x", "a")
    bind(asked, "b", "x", "b")
    found = {name: covering(asked.topology.queue("/", name), ["x"], asked.topology, DEFAULTS) for name in "ab"}  # type: ignore[arg-type]
    assert [limit.policy for limit in found["a"]] == ["exchange", "vhost"]
    assert [limit.policy for limit in found["b"]] == ["exchange", "keys", "vhost"]


def test_a_limit_is_the_same_with_other_marks_and_gone_without_its_policy(asked: Asked) -> None:
    put(asked, "p", "exchanges", "^x$", sum_stop_count=10)
    (limit,) = of_publish(asked, "x")
    put(asked, "p", "exchanges", "^x$", sum_stop_count=20)
    again = same_limit(limit, asked.topology, DEFAULTS)
    assert again and again.key == limit.key and again.marks.stop_count == 20
    for pattern, definition in (("^y$", {"sum_stop_count": 20}), ("^x$", {"deepest_stop_count": 20})):
        put(asked, "p", "exchanges", pattern, **definition)
        assert same_limit(limit, asked.topology, DEFAULTS) is None
    asked.topology.apply(["policy_gone", "/", False, "p"])
    assert same_limit(limit, asked.topology, DEFAULTS) is None


def test_only_the_governing_policy_limits(asked: Asked) -> None:
    put(asked, "a", "users", "^guest$", sum_length=9)
    other = put(asked, "b", "users", "^guest$", sum_length=9)
    assert [*limits_of_policy(other, "user", "/", "guest", asked.topology, DEFAULTS)] == []
    assert says_something(other) and not says_something(policy(max_length=5, max_rate=5))


def test_depths_count_as_the_limit_says() -> None:
    assert counted("sum", (1, 2, 3, 4)) == (1, 2) and counted("deepest", (1, 2, 3, 4)) == (3, 4)
