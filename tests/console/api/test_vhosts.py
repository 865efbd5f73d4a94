"""Virtual hosts."""

from __future__ import annotations

import pytest
import requests

from tests.console.api.conftest import Connect
from tests.management import RIGHTS, Api
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


def test_a_vhost_is_made_for_its_maker_and_deleted(api: Api) -> None:
    assert [api.status("PUT", "vhosts/a%2Fb", body) for body in (None, {"description": "x", "tags": "a,b"})] == [
        201,
        204,
    ]
    assert api.get("vhosts/a%2Fb/permissions") == [{"user": "guest", "vhost": "a/b", **RIGHTS}]
    assert "a/b" in [each["name"] for each in api.get("vhosts")]
    found = api.get("vhosts/a%2Fb")
    assert found["metadata"] == {"description": "x", "tags": ["a", "b"]}
    assert api.status("PUT", "vhosts/a%2Fb", {"tags": ["c"]}) == 204
    found = api.get("vhosts/a%2Fb")
    assert (found["description"], found["tags"]) == ("x", ["c"])
    assert api.status("PUT", "vhosts/a%2Fb", {"description": "x" * 5000}) == 400
    assert api.status("PUT", "vhosts/a%2Fb", {"tracing": True}) == 400
    assert api.status("PUT", "vhosts/a%2Fb", {"default_queue_type": "stream"}) == 400
    assert [api.status("DELETE", "vhosts/a%2Fb") for _ in range(2)] == [204, 404]
    assert api.status("PUT", "vhosts/a%0Ab") == 400


def test_a_body_is_json_whatever_it_is_declared_to_be(api: Api, vhost: str) -> None:
    for declared in ("application/x-www-form-urlencoded", "text/plain", ""):
        answer = requests.put(
            f"http://127.0.0.1:{api.port}/api/vhost-limits/{vhost}/max-queues", data='{"value": 5}',
            auth=("guest", "guest"), headers={"Content-Type": declared}, timeout=30,
        )  # fmt: skip
        assert answer.status_code == 204


def test_a_vhost_counts_its_messages(api: Api, vhost: str, connect: Connect) -> None:
    channel = connect().channel()
    channel.queue_declare("q")
    for _ in range(3):
        channel.basic_publish("", "q", b"x")
    found = wait_for(lambda: found if (found := api.get(f"vhosts/{vhost}"))["messages"] == 3 else None)
    assert (found["messages_ready"], found["message_stats"]["publish"]) == (3, 3)
