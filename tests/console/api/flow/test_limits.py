"""Trials of limits over HTTP, on a real node."""

from __future__ import annotations

import pytest

from tests.console.http.node import HttpBroker
from tests.raw import CAPABILITIES, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def test_a_change_of_marks_is_tried_before_it_is_made(node: HttpBroker) -> None:
    with Client.connect(node.address, properties={"capabilities": CAPABILITIES, "product": "trier"}) as producer:
        channel = producer.channel()
        channel.call("queue.declare", queue="tried", durable=True)
        for _ in range(10):
            channel.publish(b"x", "tried")
        wait_for(lambda: channel.depth("tried") == 10)
        policy = {"vhost": "/", "name": "t", "pattern": "^tried$", "definition": {"flow-stop-count": 5}}
        found = node.request("POST", "/api/flow/limits/try", policy).json
        assert found["reached"] == ["queue 'tried' in vhost '/': 10 of 5 messages"]
        assert [each["client"] for each in found["stopped"]] == ["trier"]
        assert node.request("POST", "/api/flow/limits/try", {**policy, "definition": {"nonsense": 1}}).status == 400
        settings = {each["setting"]: each["value"] for each in node.get("/api/flow/limits/%2F/tried").json["settings"]}
        assert settings["flow-stop-count"] is None, "it was not made"
