"""Counts by RabbitMQ's names, with their rates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from console.api import counted
from console.api.counted import message_stats
from tests.console.api.conftest import Connect
from tests.management import Api
from tests.waiting import wait_for

COUNTED = {
    "published": 1, "returned": 2, "dropped": 4, "confirmed": 3, "delivered": 10, "delivered_no_ack": 20, "got": 30,
    "got_no_ack": 40, "got_empty": 5, "redelivered": 6, "acked": 7,
}  # fmt: skip


def test_counts_have_rabbitmqs_names() -> None:
    assert message_stats(COUNTED) == {
        "publish": 7, "confirm": 3, "return_unroutable": 2, "drop_unroutable": 4, "deliver": 10, "deliver_no_ack": 20,
        "get": 30, "get_no_ack": 40, "get_empty": 5, "redeliver": 6, "ack": 7, "deliver_get": 100,
    }  # fmt: skip


class Asked:
    """A broker whose second acceptor answers once, and whose router never does."""

    def __init__(self) -> None:
        self.sums: dict[str, dict[str, int]] = {}
        self.answers = [5]

    def serving(self) -> list[int]:
        return [0, 1]

    async def ask(self, _role: str, index: int, _question: str) -> dict[str, int]:
        if index == 1 and not self.answers:
            raise ConnectionRefusedError
        return {"published": 10 if index == 0 else self.answers.pop()}

    async def administer(self, _command: str) -> dict[str, int]:
        await asyncio.Event().wait()
        raise AssertionError


def test_what_a_process_has_counted_stays_while_it_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "SUMS_SECONDS", 0.01)
    broker: Any = Asked()
    assert [asyncio.run(counted.sums(broker))["published"] for _ in range(2)] == [15, 15]


@pytest.mark.broker
def test_what_comes_and_goes_is_counted(api: Api, vhost: str, connect: Connect) -> None:
    before = api.get("overview")["churn_rates"]
    connection = connect()
    channel = connection.channel()
    connection.channel()
    for name in "one", "two", "two":
        channel.queue_declare(name)
    channel.queue_delete("one")
    connection.close()

    def grown() -> bool:
        now = api.get("overview")["churn_rates"]
        return {name: now[name] - before[name] for name in now if not name.endswith("_details")} == {
            "connection_created": 1, "connection_closed": 1, "channel_created": 2, "channel_closed": 2,
            "queue_declared": 3, "queue_created": 2, "queue_deleted": 1,
        }  # fmt: skip

    wait_for(grown, interval=0.1)
    found = api.get("overview")["churn_rates"]
    assert all(found[f"{name}_details"].keys() == {"rate"} for name in found if not name.endswith("_details"))
    (node,) = api.get("nodes")
    assert node["queue_created"] == found["queue_created"]


@pytest.mark.broker
def test_the_overview_counts_gets_and_what_no_queue_takes(api: Api, vhost: str, connect: Connect) -> None:
    before = api.get("overview")["message_stats"]
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("q")
    for key in "q", "q", "nowhere":
        channel.basic_publish("", key, b"x")
    wait_for(lambda: channel.basic_get("q", auto_ack=True)[0])
    connection.close()
    after = api.get("overview")["message_stats"]
    assert [after[name] - before[name] for name in ("get", "get_no_ack", "drop_unroutable")] == [0, 1, 1]
    assert after["get_no_ack_details"]["rate"] >= 0.0
