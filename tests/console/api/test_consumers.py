"""Consumers."""

from __future__ import annotations

import pytest

from tests.console.api.conftest import Connect
from tests.management import Api

pytestmark = pytest.mark.broker


def test_consumers_are_listed_by_vhost(api: Api, vhost: str, connect: Connect) -> None:
    channel = connect().channel()
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None, auto_ack=True, exclusive=True, consumer_tag="c")
    (found,) = api.get(f"consumers/{vhost}")
    assert (found["consumer_tag"], found["ack_required"], found["exclusive"]) == ("c", False, True)
    assert found["queue"] == {"vhost": vhost, "name": "q"}
    assert found in api.get("consumers")
    assert api.get(f"queues/{vhost}/q")["exclusive_consumer_tag"] == "c"
    assert api.get("consumers/%2F") == []
    assert api.status("GET", "consumers/nowhere") == 404
