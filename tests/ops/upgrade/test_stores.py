"""The data directories of earlier releases, made by their own code (`tests/ops/upgrade/fill.py`), are taken over."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import zstandard

from tests.broker import Broker
from tests.ops.upgrade.fill import ACKED, HELD, LARGE, ORDERS, REJECTED, STORES, URGENT
from tests.outcomes import bodies
from tests.raw import Client

pytestmark = [pytest.mark.broker, pytest.mark.long]

ARCHIVES = sorted(path.name for path in STORES.iterdir())
OLDEST = "a7778d5-killed.tar.zst"
"""The others are slow tests."""


def test_each_release_has_both_states() -> None:
    assert {name.partition("-")[2] for name in ARCHIVES} == {"ended.tar.zst", "killed.tar.zst"}
    assert len(ARCHIVES) == 2 * len({name.partition("-")[0] for name in ARCHIVES})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == OLDEST else pytest.mark.slow) for name in ARCHIVES]
)
def test_a_store_of_an_earlier_release_is_taken_over_whole(name: str, tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(zstandard.ZstdDecompressor().decompress((STORES / name).read_bytes()))) as tar:
        tar.extractall(tmp_path, filter="data")
    with Broker(tmp_path, shards=2) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        before = [number for number in range(20) if number not in ACKED]
        orders = [channel.get("orders") for _ in range(ORDERS - len(ACKED))]
        assert [event.body for event in orders if event] == [b"order %d" % n for n in (*before, *range(20, ORDERS))]
        assert all(event and event.redelivered for event in orders[: len(before)]), "they may have been delivered"
        assert orders[-1] and orders[-1].properties["headers"] == {"number": ORDERS - 1}
        assert channel.get("orders") is None, "the transient one is gone"
        urgent = sorted(range(URGENT), key=lambda number: -(number % 5))
        assert bodies(channel, "urgent") == [b"urgent %d" % number for number in urgent]
        assert bodies(channel, "held") == [b"held %d" % number for number in range(HELD)]
        assert bodies(channel, "rejected") == [b"rejected %d" % number for number in range(1, REJECTED)]
        assert set(bodies(channel, "letters")) == {LARGE, b"rejected 0"}, (
            "a dead letter may arrive twice, after SIGKILL"
        )

        channel.publish(b"new", "order.new", "events")
        assert bodies(channel, "orders") == [b"new"]
        (policy,) = broker.call("policy_list", vhost="/")
        assert (policy["name"], policy["definition"]) == ("small", {"max-length": 40})
        assert {each["name"] for each in broker.call("user_list")} == {"alice", "guest"}
        (permission,) = broker.call("permission_list", user="alice", vhost=None)
        assert (permission["vhost"], permission["read"]) == ("shop", ".*")
        with Client(broker.address) as alice:
            alice.login(user="alice", password="secret", vhost="shop")
    again = Broker(tmp_path, shards=2)
    again.stop()
    assert again.penstock("store", "check").returncode == 0
