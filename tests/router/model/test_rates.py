"""Limits of rates: their owners and their wording."""

from __future__ import annotations

from typing import Any

import pytest

from router.model.policy_keys import RATES
from router.model.rates import BURST_MS, RateLimit, limits_rates, rate_limits, rate_of, rate_of_policy
from router.model.records import Policy, Queue
from tests.router.making import Asked, policy


@pytest.fixture
def asked() -> Asked:
    return Asked()


def put(asked: Asked, name: str, apply_to: str, pattern: str = ".*", vhost: str = "/", **definition: Any) -> Policy:
    made = policy(name, pattern, apply_to, **definition)
    made = Policy(vhost, False, name, pattern, apply_to, 0, made.definition)
    asked.topology.apply(made.change())
    return made


def queue(asked: Asked, **arguments: Any) -> Queue:
    asked.done("queue_declare", name="q", arguments={f"x-{key}": value for key, value in arguments.items()})
    found = asked.topology.queue("/", "q")
    assert found
    return found


def test_a_publish_is_limited_for_each_of_its_owners(asked: Asked) -> None:
    put(asked, "exchange", "exchanges", "^x$", max_rate=1)
    put(asked, "keys", "routing_keys", "^x$", routing_key="^a", max_rate=2)
    put(asked, "user", "users", "^bob$", max_rate_bytes="3 kB")
    put(asked, "vhost", "vhosts", vhost="", max_rate=4, rate_burst="2 s")
    put(asked, "node", "node", "", vhost="", max_rate=5)
    found = list(rate_limits(asked.topology, "/", ["", "x", "y"], "a.b", "bob"))
    assert found == [
        RateLimit("exchange", "/", "x", 1, 0, BURST_MS),
        RateLimit("routing_key", "/", "x", 2, 0, BURST_MS, "^a"),
        RateLimit("user", "/", "bob", 0, 3000, BURST_MS),
        RateLimit("vhost", "/", "/", 4, 0, 2000),
        RateLimit("node", "", "", 5, 0, BURST_MS),
    ]
    others = list(rate_limits(asked.topology, "/", ["y"], "b", "ann"))
    assert [limit.sort for limit in others] == ["vhost", "node"]


def test_a_queue_has_the_rate_of_its_declaration_and_policy(asked: Asked) -> None:
    found = queue(asked, **{"max-rate": 5, "max-rate-bytes": "1 kB", "rate-burst": "500 ms"})
    assert rate_of(found) == RateLimit("queue", "/", "q", 5, 1000, 500, queue_id=found.queue_id)
    asked.done("queue_declare", name="plain", arguments={"x-rate-burst": "500 ms"})
    plain = asked.topology.queue("/", "plain")
    assert plain and rate_of(plain) is None


def test_only_the_governing_policy_sets_a_rate(asked: Asked) -> None:
    ours = put(asked, "a", "users", "^bob$", max_rate=1)
    others = put(asked, "b", "users", "^bob$", max_rate=2)
    assert rate_of_policy(ours, "user", "/", "bob", asked.topology) == RateLimit("user", "/", "bob", 1, 0, BURST_MS)
    assert rate_of_policy(others, "user", "/", "bob", asked.topology) is None
    asked.topology.apply(["policy_gone", "/", False, "a"])
    assert rate_of_policy(ours, "user", "/", "bob", asked.topology) is None
    assert rate_of_policy(others, "user", "/", "bob", asked.topology) is not None


def test_a_bucket_belongs_to_its_owner_whatever_the_rate() -> None:
    limit = RateLimit("user", "/", "bob\udcff", 5, 0, 1000)
    assert limit.bucket == limit._replace(messages=9, nbytes=9, burst_ms=9).bucket
    owners = [
        limit,
        *(limit._replace(**{field: "z"}) for field in ("sort", "vhost", "name", "routing_key")),
        limit._replace(queue_id=1),
    ]
    assert len({each.bucket for each in owners}) == len(owners) and all(each.bucket for each in owners)


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (RateLimit("queue", "/", "q", 5, 0, 1), "rate of queue 'q' in vhost '/': 5 messages a second"),
        (RateLimit("node", "", "", 0, 7, 1), "rate of the node: 7 bytes a second"),
        (
            RateLimit("routing_key", "/", "x", 5, 7, 1, "^a"),
            "rate of routing keys ^a of exchange 'x' in vhost '/': 5 messages and 7 bytes a second",
        ),
    ],
)
def test_a_limit_reads_as_a_sentence(limit: RateLimit, text: str) -> None:
    assert str(limit) == text


def test_policies_that_limit_rates_are_told_from_others() -> None:
    assert all(limits_rates(policy(**{key: 1})) for key in RATES)
    assert not limits_rates(policy(max_length=5, sum_length=5))
