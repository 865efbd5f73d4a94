"""Stops by hand over HTTP, on a real node."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.console.api.flow.courses import Events
from tests.console.http.node import HttpBroker
from tests.raw import CAPABILITIES, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def test_a_stop_by_hand_is_tried_made_and_lifted(node: HttpBroker) -> None:
    with (
        Client.connect(node.address, properties={"capabilities": CAPABILITIES, "product": "p"}) as producer,
        Events(node) as events,
    ):
        channel = producer.channel()
        channel.call("queue.declare", queue="by-hand", durable=True)
        channel.publish(b"x", "by-hand")
        scope = {"queue": "by-hand"}
        tried = wait_for(
            lambda: (found := node.request("POST", "/api/flow/stops/try", scope).json)["channels"] and found
        )
        assert [each["client"] for each in tried["rows"]] == ["p"]
        made = node.request("POST", "/api/flow/stops", {**scope, "reason": "db move", "seconds": 600})
        assert (made.status, made.json["vhost"], made.json["author"]) == (201, "/", "guest")
        number = made.json["number"]
        channel.publish(b"y", "by-hand")
        events.take("held", client="p")
        assert [each["number"] for each in events.take("stop")["stops"]] == [number]
        assert [each["reason"] for each in node.get("/api/flow/stops").json] == ["db move"]
        assert node.request("DELETE", f"/api/flow/stops/{number}").status == 200
        events.take("released")
        assert node.get("/api/flow/stops").json == []
        assert node.request("DELETE", f"/api/flow/stops/{number}").status == 404
    written = [json.loads(line) for path in (node.directory / "data" / "audit").glob("console.*.jsonl")
               for line in path.read_text().splitlines()]  # fmt: skip
    records = [
        each for each in written if each["arguments"].get("queue") == "by-hand" or each["command"] == "flow_lift"
    ]
    assert [(each["command"], each["who"]["http_user"], each["outcome"]) for each in records] == [
        ("flow_stop", "guest", "done"), ("flow_lift", "guest", "done"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("scope", "reason"),
    [
        ({}, "give all, or any of vhost, exchange, key, queue, user and connection"),
        ({"all": True, "queue": "q"}, "give all, or any of vhost, exchange, key, queue, user and connection"),
        ({"queues": "q"}, "queues: Extra inputs are not permitted"),
        ({"all": True, "seconds": -1}, "seconds: Input should be greater than 0"),
        ({"vhost": "nowhere"}, "Not Found"),
        ({"all": True, "reason": "a\nb"}, "the reason has to be one line of at most 200 characters"),
    ],
)
def test_a_stop_that_makes_no_sense_is_refused(node: HttpBroker, scope: dict[str, Any], reason: str) -> None:
    refused = node.request("POST", "/api/flow/stops", scope)
    assert refused.status in (400, 404) and refused.json["reason"] == reason
    assert node.get("/api/flow/stops").json == []


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("POST", "/api/flow/stops", {"all": True}),
        ("POST", "/api/flow/stops/try", {"vhost": "/"}),
        ("POST", "/api/flow/limits/try", {"vhost": "/", "name": "n", "pattern": "", "definition": {}}),
    ],
)
def test_a_monitoring_user_may_look_and_change_nothing(node: HttpBroker, method: str, path: str, content: Any) -> None:
    for seen in ("held", "graph", "stops", "ledger", "incidents"):
        assert node.get(f"/api/flow/{seen}", user=("reader", "reader")).status == 200
    assert node.request(method, path, content, user=("reader", "reader")).status == 401
