"""The overview, and what a node says of itself as a cluster."""

from __future__ import annotations

import pytest
import requests

from tests.console.api.conftest import Connect
from tests.management import Api
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


def test_the_overview_counts_objects_and_messages(api: Api, vhost: str, connect: Connect) -> None:
    wait_for(lambda: api.get("overview")["object_totals"]["connections"] == 0, interval=0.1)  # those of other tests
    before = api.get("overview")
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    for _ in range(7):
        channel.basic_publish("", "q", b"x")
    channel.basic_consume("q", lambda *_: None)
    connection.process_data_events(0)

    def counted() -> bool:
        now = api.get("overview")
        grown = {name: now["object_totals"][name] - before["object_totals"][name] for name in now["object_totals"]}
        return (
            grown == {"connections": 1, "channels": 1, "consumers": 1, "queues": 1, "exchanges": 0}
            and now["message_stats"]["publish"] - before["message_stats"]["publish"] == 7
            and now["message_stats"]["confirm"] - before["message_stats"]["confirm"] == 7
            and now["queue_totals"]["messages_unacknowledged"] == 7
            and now["message_stats"]["publish_details"]["rate"] > 0
        )

    wait_for(counted, interval=0.1)
    assert {each["protocol"] for each in api.get("overview")["listeners"]} == {"amqp", "http"}
    assert api.get("overview?columns=node,queue_totals.messages") == {
        "node": api.get("cluster-name")["name"], "queue_totals": {"messages": 7},
    }  # fmt: skip


def test_the_overview_of_a_user_is_of_its_vhosts(api: Api, vhost: str, connect: Connect) -> None:
    api.make_user("greta", "management", vhost)
    channel = connect().channel()
    channel.queue_declare("q")
    found = api.get("overview", "greta")
    assert found["object_totals"]["queues"] == 1 and found["object_totals"]["connections"] == 0
    assert "listeners" not in found


def test_samples_of_the_node_are_given(api: Api) -> None:
    path = "overview?lengths_age=60&lengths_incr=1&msg_rates_age=60&msg_rates_incr=1"
    found = wait_for(lambda: found if len((found := api.get(path)["queue_totals"]["messages_details"])["samples"]) > 1
                     else None, interval=0.2)  # fmt: skip
    stamps = [each["timestamp"] for each in found["samples"]]
    assert stamps == sorted(stamps, reverse=True) and stamps[0] - stamps[1] == 1000


def test_a_cluster_of_one_cannot_be_changed(api: Api) -> None:
    assert api.status("PUT", "cluster-name", {"name": "x"}) == 400
    assert api.status("POST", "rebalance/queues") == 400
    assert api.status("PUT", "feature-flags/x/enable") == 400
    assert [api.get(path) for path in ("feature-flags", "deprecated-features", "extensions")] == [[], [], []]
    node = api.get("cluster-name")["name"]
    assert api.get(f"auth/attempts/{node}") == [] and api.status("GET", "auth/attempts/other") == 404


def test_how_to_log_in_is_known_without_a_login(api: Api) -> None:
    answer = requests.get(f"http://127.0.0.1:{api.port}/api/auth", timeout=30)
    assert answer.status_code == 200 and answer.json()["enable_uaa"] is False
