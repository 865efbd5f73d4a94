"""Channels."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest

from tests.console.api.conftest import Connect
from tests.management import Api

pytestmark = pytest.mark.broker


def test_channels_have_their_modes_and_consumers(api: Api, vhost: str, connect: Connect) -> None:
    connection = connect()
    confirming, transactional, consuming = (connection.channel() for _ in range(3))
    confirming.confirm_delivery()
    transactional.tx_select()
    consuming.queue_declare("q")
    consuming.basic_qos(prefetch_count=7)
    consuming.basic_qos(prefetch_count=9, global_qos=True)
    consuming.basic_consume("q", lambda *_: None, consumer_tag="c")
    first, second, third = sorted(api.get(f"vhosts/{vhost}/channels"), key=lambda each: each["number"])
    assert [(each["confirm"], each["transactional"]) for each in (first, second, third)] == [
        (True, False), (False, True), (False, False)
    ]  # fmt: skip
    assert (third["prefetch_count"], third["global_prefetch_count"], third["consumer_count"]) == (7, 9, 1)
    found = api.get(f"channels/{quote(third['name'], safe='')}")
    assert [each["consumer_tag"] for each in found["consumer_details"]] == ["c"]
    assert api.status("GET", "channels/nothing") == 404


def test_a_channel_has_counts_of_its_messages_with_their_rates(api: Api, vhost: str, connect: Connect) -> None:
    connection = connect()
    channel, other = connection.channel(), connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    begin = time.monotonic()
    (name,) = [each["name"] for each in api.get(f"vhosts/{vhost}/channels") if each["number"] == channel.channel_number]
    path = f"channels/{quote(name, safe='')}"
    assert api.get(path)["message_stats"]["publish_details"] == {"rate": 0.0}
    answered = time.monotonic()
    for _ in range(8):
        channel.basic_publish("", "q", b"x")
    channel.basic_ack(channel.basic_get("q")[0].delivery_tag)
    channel.basic_get("q", auto_ack=True)
    channel.queue_declare("q", passive=True)  # answered behind the ack
    asked = time.monotonic()
    stats = api.get(path)["message_stats"]
    end = time.monotonic()
    counts = {each: stats[each] for each in stats if not each.endswith("_details") and stats[each]}
    assert counts == {"publish": 8, "confirm": 8, "get": 1, "get_no_ack": 1, "deliver_get": 2, "ack": 1}
    for each, count in counts.items():
        assert count / (end - begin) <= stats[f"{each}_details"]["rate"] <= count / (asked - answered)
    of_connection = name.rpartition(" (")[0]
    first, second = api.get(f"connections/{quote(of_connection, safe='')}/channels?sort=number")
    assert first["message_stats"]["publish"] == 8 and not second["message_stats"]["publish"]
    other.close()
    assert len(api.get(f"connections/{quote(of_connection, safe='')}/channels")) == 1
