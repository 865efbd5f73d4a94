"""Queues: their fields, numbers, owners and consumers."""

from __future__ import annotations

import pytest

from tests.console.api.conftest import Connect
from tests.management import Api
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


def test_a_queue_has_its_messages_policies_and_consumers(api: Api, vhost: str, connect: Connect) -> None:
    api.put(f"policies/{vhost}/p", {"pattern": "^q", "definition": {"max-length": 100}, "apply-to": "queues"})
    api.put(f"operator-policies/{vhost}/o", {"pattern": "^q", "definition": {"max-length": 50}})
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("q", durable=True, arguments={"x-own": "mine", "x-single-active-consumer": True})
    for number in range(10):
        channel.basic_publish("", "q", b"12345"[: number % 6])
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume("q", lambda *_: None, consumer_tag="one")
    channel.basic_consume("q", lambda *_: None, consumer_tag="two", arguments={"x-priority": -1})
    connection.process_data_events(0)
    path = f"queues/{vhost}/q"
    found = wait_for(lambda: found if (found := api.get(path))["messages_unacknowledged"] == 3 else None)
    assert (found["messages"], found["messages_ready"], found["consumers"]) == (10, 7, 2)
    assert found["message_bytes"] == found["message_bytes_ready"] + found["message_bytes_unacknowledged"] > 0
    assert found["arguments"] == {"x-own": "mine", "x-single-active-consumer": True}
    assert (found["policy"], found["operator_policy"]) == ("p", "o")
    assert found["effective_policy_definition"] == {"max-length": 50}
    assert found["single_active_consumer_tag"] == "one" and found["exclusive_consumer_tag"] is None
    one, two = sorted(found["consumer_details"], key=lambda each: each["consumer_tag"])
    assert (one["activity_status"], two["activity_status"]) == ("single_active", "waiting")
    assert (one["arguments"], two["arguments"]) == ({}, {"x-priority": -1})
    assert found["message_stats"]["publish"] == 10 and found["message_stats"]["deliver_get"] == 3
    (listed,) = api.get(f"queues/{vhost}")
    assert listed.items() <= {**found, **listed}.items() and listed["arguments"] == found["arguments"]


def test_an_exclusive_queue_has_its_owner(api: Api, vhost: str, connect: Connect) -> None:
    channel = connect().channel()
    channel.queue_declare("mine", exclusive=True)
    found = api.get(f"queues/{vhost}/mine")
    (connection,) = api.get(f"vhosts/{vhost}/connections")
    assert found["exclusive"] and found["owner_pid_details"]["name"] == connection["name"]
    assert found["owner_pid_details"]["peer_port"] == connection["peer_port"] > 0


def test_rates_and_samples_follow_the_messages(api: Api, vhost: str, connect: Connect) -> None:
    channel = connect().channel()
    channel.queue_declare("q")
    path = f"queues/{vhost}/q?lengths_age=60&lengths_incr=1&msg_rates_age=60&msg_rates_incr=1"
    api.get(path)

    def samples() -> list[int]:
        channel.basic_publish("", "q", b"x")
        return [each["sample"] for each in api.get(path)["messages_details"]["samples"]]

    found = wait_for(lambda: found if len(set(found := samples())) > 2 else None, interval=0.2)
    assert found == sorted(found, reverse=True)
    queue = api.get(path)
    assert queue["messages_details"]["rate"] > 0 and queue["messages_details"]["avg_rate"] > 0
    assert queue["message_stats"]["publish_details"]["rate"] > 0
    channel.queue_purge("q")
    wait_for(lambda: api.get(path)["messages_details"]["rate"] < 0, interval=0.1)
    assert api.status("GET", f"queues/{vhost}/q?lengths_age=0&lengths_incr=1") == 400


def test_a_page_has_a_part_of_the_queues_by_name(api: Api, vhost: str, connect: Connect) -> None:
    channel = connect().channel()
    for number in range(25):
        channel.queue_declare(f"q{number:02d}")
    seen: list[str] = []
    for page in (1, 2, 3):
        found = api.get(f"queues/{vhost}?page={page}&page_size=10&columns=name")
        assert (found["total_count"], found["filtered_count"], found["page_count"]) == (25, 25, 3)
        seen += [each["name"] for each in found["items"]]
    assert seen == [f"q{number:02d}" for number in range(25)]
    found = api.get(f"queues/{vhost}?page=1&name=Q1&sort=name&sort_reverse=true")
    assert [each["name"] for each in found["items"]] == [f"q{number}" for number in range(19, 9, -1)]
    assert api.status("GET", f"queues/{vhost}?page=4&page_size=10") == 400
