"""Moves of queues over HTTP, on a real node."""

from __future__ import annotations

import pytest

from tests.console.http.node import HttpBroker
from tests.raw import Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def test_a_queue_is_moved_with_its_messages(node: HttpBroker) -> None:
    path = "/api/queues/%2F/moving"
    with Client.connect(node.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="moving", durable=True)
        for number in range(20):
            channel.publish(b"%d" % number, "moving")
        source = wait_for(lambda: node.get(path).json.get("flow"))["shard"]
        wait_for(lambda: channel.depth("moving") == 20)
        moved = node.request("POST", f"{path}/move", {"shard": 1 - source})
        assert (moved.status, moved.json["result"], moved.json["messages"]) == (200, "moved", 20)
        wait_for(lambda: node.get(path).json["flow"]["shard"] == 1 - source)
        assert channel.depth("moving") == 20
        assert node.request("POST", f"{path}/move", {"shard": 1 - source}).json["result"] == "already-there"
        assert node.request("DELETE", f"{path}/move").json == {"rolled_back": False}


@pytest.mark.parametrize(
    ("queue", "content", "status"),
    [("nowhere", {"shard": 0}, 404), ("moving-not", {"shard": 99}, 409), ("moving-not", {"shard": -1}, 400)],
)
def test_a_move_that_cannot_be_is_refused(node: HttpBroker, queue: str, content: object, status: int) -> None:
    with Client.connect(node.address) as client:
        client.channel().call("queue.declare", queue="moving-not", durable=True)
    refused = node.request("POST", f"/api/queues/%2F/{queue}/move", content)
    assert refused.status == status, refused.json
