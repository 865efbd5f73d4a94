"""Who is held, and why, on a real node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.flow import RESUME, STOP
from tests.console.api.flow.courses import UNACKED, Held
from tests.console.http.node import HttpBroker
from tests.waiting import wait_for

LONG_STOP = 1.5
"""Seconds of a stop that is not summed up with others."""

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def held(node: HttpBroker, name: str) -> list[dict[str, Any]]:
    found = node.get("/api/flow/held").json
    return [each for each in found if any(cause.get("name") == name for cause in each["causes"])]


def account(node: HttpBroker, name: str) -> float:
    """Return for how long a queue has held producers."""
    accounts = node.get("/api/flow/ledger?by=queue").json
    return sum(each["seconds"] for each in accounts if each["name"] == name)


def test_a_held_producer_is_shown_with_its_causes_down_to_the_consumer(node: HttpBroker) -> None:
    with Held(node, "orders") as course:
        (channel,) = wait_for(lambda: held(node, "orders"))
        (cause,) = channel["causes"]
        assert (channel["client"], channel["user"], channel["exchange"]) == ("held", "guest", "x.orders")
        assert (cause["kind"], cause["vhost"], cause["stop"], cause["resume"]) == ("queue", "/", STOP, RESUME)
        assert cause["depth"] >= STOP
        lines = node.get(f"/api/flow/why/{channel['connection']}").json["lines"]
        assert lines[0]["depth"] == 0 and lines[0]["text"].startswith(f"connection {channel['connection']} (held,")
        assert any("c.orders" in line["text"] and f"{UNACKED} of {UNACKED} unacked" in line["text"] for line in lines)
        graph = node.get("/api/flow/graph").json
        states = {each["label"]: each["state"] for each in graph["nodes"]}
        assert (states["orders"], states["c.orders"]) == ("held", "cause")
        assert ("x.orders", "flowing") in states.items() and ("guest", "held") in states.items()
        wait_for(lambda: account(node, "orders") > LONG_STOP, what="a stop that is not summed up with others")
        course.drain(course.channel)
        wait_for(lambda: not held(node, "orders"), what="its release")
        assert node.get(f"/api/flow/why/{channel['connection']}").status == 404
    wait_for(lambda: [each for each in node.get("/api/flow/incidents").json if each["queue"] == "orders"])
