"""Channels."""

from __future__ import annotations

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
