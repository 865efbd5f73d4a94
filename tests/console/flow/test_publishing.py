"""Publish rates of channels, from two readings of an acceptor's counts."""

from __future__ import annotations

from typing import Any

from console.flow.publishing import rates_between


def check(seconds: float, **messages: int) -> dict[str, Any]:
    way = {"channel": 1, "exchanges": [""], "routing_key": "q", "queues": [7], "powerless": []}
    rows = [
        {"connection": connection, **way, "messages": count, "bytes": 10 * count}
        for connection, count in messages.items()
    ]
    return {"seconds": seconds, "publishes": rows}


def rates(*checks: dict[str, Any]) -> dict[str, tuple[float, float]]:
    return {row["connection"]: (row["messages"], row["bytes"]) for row in rates_between(*checks)}


def test_what_was_published_in_between() -> None:
    assert rates(check(0.0), check(2.0, a=100, b=1)) == {"a": (50, 500), "b": (0.5, 5)}
    assert rates(check(4.0, a=100, b=1), check(6.0, a=110, b=1, c=2)) == {"a": (5, 50), "c": (1, 10)}, "b is idle"
    assert rates(check(4.0), check(6.0, a=10)) == {"a": (5, 50)}


def test_an_acceptor_that_was_started_anew() -> None:
    assert rates(check(4.0, a=1000), check(0.5, b=10)) == {"b": (20, 200)}
    assert rates(check(4.0, a=1000), check(0.0)) == {}
