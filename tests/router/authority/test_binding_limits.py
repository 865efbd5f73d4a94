"""Limits on the number of bindings and on the length of their patterns."""

from __future__ import annotations

from typing import Any

import pytest

from router.authority.binding_limits import BindingLimits
from tests.router.making import Asked


@pytest.fixture
def asked() -> Asked:
    asked = Asked()
    for name in ("q", "other"):
        asked.done("queue_declare", name=name)
    return asked


def bind(asked: Asked, key: str, queue: str = "q", source: str = "amq.direct") -> None:
    asked.done("queue_bind", queue=queue, source=source, key=key)


def refused(asked: Asked, **arguments: Any) -> str:
    code, text = asked.refused("queue_bind", **{"queue": "q", "source": "amq.topic", "key": "k", **arguments})
    assert code == 406
    return text.removeprefix("PRECONDITION_FAILED - ")


def test_an_exchange_has_so_many(asked: Asked) -> None:
    for key in "abc":
        bind(asked, key)
    asked.authority.binding_limits = BindingLimits(per_exchange=3)
    text = "exchange 'amq.direct' in vhost '/'"
    for kind, name in (("queue", "other"), ("exchange", "amq.fanout")):
        target = {"queue" if kind == "queue" else "destination": name}
        code, reason = asked.refused(f"{kind}_bind", source="amq.direct", key="d", **target)
        assert code == 406
        assert reason.endswith(
            f"cannot make binding of {kind} '{name}' to {text}: {text} has 3 bindings, its limit "
            "(amqp.bindings_per_exchange)"
        )
    bind(asked, "a")  # it exists already
    bind(asked, "d", source="amq.topic")
    asked.done("queue_unbind", queue="q", source="amq.direct", key="a")
    bind(asked, "d")


def test_a_queue_has_so_many(asked: Asked) -> None:
    for key in "abc":
        bind(asked, key)
    asked.authority.binding_limits = BindingLimits(per_queue=3)
    assert refused(asked).endswith("queue 'q' in vhost '/' has 3 bindings, its limit (amqp.bindings_per_queue)")
    bind(asked, "d", queue="other")
    asked.done("exchange_bind", source="amq.topic", destination="amq.fanout", key="k")
    asked.done("queue_unbind", queue="q", source="amq.direct", key="a")
    bind(asked, "k", source="amq.topic")


def test_a_pattern_has_so_many_words(asked: Asked) -> None:
    long = ".".join("abcd#")
    bind(asked, long, source="amq.topic")
    asked.authority.binding_limits = BindingLimits(words=4)
    assert refused(asked, key=f"{long}.e").endswith(
        "binding of queue 'q' to exchange 'amq.topic' in vhost '/' has a pattern of 6 words, more than 4 "
        "(amqp.pattern_words)"
    )
    bind(asked, "a.b.c.d", source="amq.topic")
    bind(asked, long, source="amq.topic")  # made before the limit
    bind(asked, f"{long}.e", source="amq.direct")  # not a pattern there
    assert [queue.name for queue in asked.topology.route("/", "amq.topic", "a.b.c.d.x.y")] == ["q"]


def test_a_binding_asks_for_so_many_headers(asked: Asked) -> None:
    asked.authority.binding_limits = BindingLimits(headers=2)
    asked.done("queue_bind", queue="q", source="amq.headers", arguments={"a": 1, "b": 2, "x-match": "any", "x-c": 3})
    wide = {"a": 1, "b": 2, "x-match": "any-with-x", "x-c": 3}
    assert refused(asked, source="amq.headers", arguments=wide).endswith(
        "asks for 3 headers, more than 2 (amqp.binding_headers)"
    )
    asked.done("queue_bind", queue="q", source="amq.topic", arguments=wide)


def test_a_binding_to_a_consistent_hash_exchange_needs_a_weight(asked: Asked) -> None:
    asked.done("exchange_declare", name="x", type="x-consistent-hash")
    asked.done("exchange_bind", source="x", destination="amq.fanout", key="3")
    for key, text in (("a", 'must be an integer: <<"a">>'), ("0", "must be greater than 0")):
        bound = {"source": "x", "destination": "amq.direct", "key": key}
        assert asked.refused("exchange_bind", **bound) == (406, f"The binding key {text}")
        asked.done("exchange_unbind", **bound)
    assert len(asked.topology.bindings_from("/", "x")) == 1
