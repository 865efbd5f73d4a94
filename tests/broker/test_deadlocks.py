"""Circles of full queues: detected, reported, and broken where a policy asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from console.flow.incidents import incidents
from shard.queue.saturation import LENT_COUNT
from tests.broker import Broker
from tests.outcomes import Confirms, wait_get
from tests.raw import Channel, Client
from tests.waiting import settled, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

STOP = 50
MARKS = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": 10}
SECONDS = 1


class Worker:
    """A client that acknowledges its deliveries from one queue once all its publishes to another are confirmed. It
    consumes and publishes on one connection, or on two.
    """

    def __init__(self, broker: Broker, source: str, target: str, connections: int = 1) -> None:
        self.client = Client.connect(broker.address)
        self.publisher = self.client if connections == 1 else Client.connect(broker.address)
        self.consumer: Channel = self.client.channel()
        self.consumer.call("basic.qos", prefetch_count=2 * STOP)
        self.consumer.call("basic.consume", queue=source)
        self.confirms = Confirms(self.publisher.channel())
        self.target = target

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.confirms.publish(b"x", self.target)

    def done(self) -> bool:
        """Whether all publishes have an outcome and none was nacked; with all outcomes known, acknowledge."""
        if self.confirms.gather():
            return False
        self.consumer.send("basic.ack", delivery_tag=0, multiple=True)
        return not self.confirms.nacked


def jam(broker: Broker, connections: int = 1) -> tuple[Worker, Worker]:
    """Return two clients in a ring: both queues are full, and neither client acknowledges before it has room."""
    with Client.connect(broker.address) as client:
        for queue in ("a", "b"):
            client.channel().call("queue.declare", queue=queue, durable=True, arguments=MARKS)
    pair = Worker(broker, "a", "b", connections), Worker(broker, "b", "a", connections)
    for worker in pair:
        worker.publish(STOP + STOP // 2)
    return pair


def incidents_of(directory: Path) -> list[dict[str, Any]]:
    """Return the deadlocks among the incidents of the node in a directory, the latest first."""
    return [each for each in incidents(directory / "data") if each["kind"] == "deadlock"]


def go_on(pair: tuple[Worker, Worker]) -> None:
    one, other = pair
    wait_for(lambda: one.done() & other.done(), timeout=60, what="both to go on")


@pytest.mark.parametrize("action", ["credit", "spill"])
def test_a_policy_breaks_a_deadlock(tmp_path: Path, action: str) -> None:
    with Broker(tmp_path, f"flow.deadlock_seconds={SECONDS}") as broker, Client.connect(broker.address) as client:
        broker.penstock("policy", "set", "jams", "^[ab]$", f'{{"deadlock": "{action}"}}', "--apply-to", "queues")
        channel = client.channel()
        channel.call("queue.declare", queue="events")
        channel.call("queue.bind", queue="events", exchange="amq.flow", routing_key="deadlock.#")
        pair = jam(broker)
        go_on(pair)
        facts = wait_get(channel, "events").properties["headers"]
        assert facts["action"] == action and "waits for queue" in facts["circle"]
        assert [each["actions"][action] for each in incidents_of(tmp_path)] == [1]
        wait_for(lambda: "deadlock" in broker.log, what="the line of who has had it broken, which comes last")


def test_the_youngest_is_refused(tmp_path: Path) -> None:
    with Broker(tmp_path, f"flow.deadlock_seconds={5 * SECONDS}") as broker:  # in which the refused one acknowledges
        broker.penstock("policy", "set", "jams", "^[ab]$", '{"deadlock": "nack"}', "--apply-to", "queues")
        one, other = pair = jam(broker)
        wait_for(lambda: any(not worker.confirms.gather() for worker in pair), timeout=60, what="one to be answered")
        refused = one if one.confirms.nacked else other
        assert 0 < len(refused.confirms.nacked) < STOP and len(refused.confirms.acked) >= STOP
        refused.consumer.send("basic.ack", delivery_tag=0, multiple=True)
        rest = other if refused is one else one
        wait_for(rest.done, timeout=60, what="the other to go on")
        wait_for(lambda: '"action":"nack"' in broker.log, what="the line of who has had it broken, which comes last")


def test_a_deadlock_is_told_once(tmp_path: Path) -> None:
    settings = f"flow.deadlock_seconds={SECONDS}", "flow.deadlock=report"
    with Broker(tmp_path, *settings) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="events")
        channel.call("queue.bind", queue="events", exchange="amq.flow", routing_key="deadlock.#")
        pair = jam(broker)
        reported = {wait_get(channel, "events").routing_key for _ in range(2)}
        assert reported == {"deadlock./.a", "deadlock./.b"}
        found = wait_for(lambda: len(each := incidents_of(tmp_path)) == 2 and each)
        assert {each["queue"] for each in found} == {"a", "b"}
        assert all("waits for queue" in each["cause"] and each["seconds"] >= SECONDS for each in found)
        assert all(each["actions"] == {"report": 1} and each["peak_count"] > STOP for each in found)
        settled(lambda: channel.depth("events"), quiet=4 * SECONDS)
        assert channel.get("events") is None
        assert incidents_of(tmp_path) == found
        assert "deadlock" in broker.penstock("flow", "incidents").stdout
        assert broker.log.count("action=report") + broker.log.count('"action": "report"') <= 1
        for worker in pair:
            worker.consumer.send("basic.ack", delivery_tag=0, multiple=True)
        go_on(pair)


@pytest.mark.parametrize("connections", [1, 2])
def test_it_is_broken_by_default_and_does_not_come_back(tmp_path: Path, connections: int) -> None:
    """Even with separate connections to consume and publish, a deadlock once broken does not recur in each round."""
    with Broker(tmp_path, f"flow.deadlock_seconds={SECONDS}") as broker:
        pair = jam(broker, connections)
        go_on(pair)
        found = incidents_of(tmp_path)
        assert found and all(each["actions"]["credit"] == 1 for each in found)
        assert "queue lends" in broker.log
        rounds = 20
        for _ in range(rounds):
            for worker in pair:
                worker.publish(STOP + STOP // 2)
            go_on(pair)
        # A slow recovery may count as a new deadlock; without the room that stays lent, every round would be one.
        assert len(incidents_of(tmp_path)) - len(found) < rounds // 2


def test_a_ring_whose_programs_have_settled_nothing_yet_is_let_through_early(tmp_path: Path) -> None:
    """The pace of the programs is unknown, but each publishes on the connection that it consumes on."""
    with Broker(tmp_path, "flow.deadlock_seconds=50") as broker:
        pair = jam(broker)
        one, other = pair
        wait_for(lambda: one.done() & other.done(), timeout=40, what="both to go on")
        (found,) = incidents_of(tmp_path)
        assert found["actions"] == {"credit": 1}


def test_a_consumer_that_takes_more_than_the_marks_allow_before_it_acks(tmp_path: Path) -> None:
    with Broker(tmp_path, f"flow.deadlock_seconds={SECONDS}") as broker, Client.connect(broker.address) as client:
        client.channel().call("queue.declare", queue="batches", durable=True, arguments=MARKS)
        consumer = client.channel()
        consumer.call("basic.consume", queue="batches")
        with Client.connect(broker.address) as producer:
            confirms = Confirms(producer.channel())
            count = 10 * (STOP + STOP // 2)
            for _ in range(count):
                confirms.publish(b"x", "batches")
            got = 0
            while got < count:
                got += 1
                tag = consumer.take("basic.deliver").delivery_tag
                if not got % (STOP + STOP // 2):
                    consumer.send("basic.ack", delivery_tag=tag, multiple=True)
        assert "is full of unacked messages" in broker.log
        reported = incidents_of(tmp_path)
        assert {each["queue"] for each in reported} == {"batches"} and len(reported) < 5  # not once for each batch


def test_what_is_lent_has_a_bound_where_consumers_are_only_slow(tmp_path: Path) -> None:
    """One user from one host has two full queues, whose slow consumers always have unacked messages."""
    with Broker(tmp_path, f"flow.deadlock_seconds={SECONDS}") as broker, Client.connect(broker.address) as client:
        producers = [Client.connect(broker.address) for _ in "ab"]
        for producer, queue in zip(producers, "ab", strict=True):
            client.channel().call("queue.declare", queue=queue, durable=True, arguments=MARKS)
            consumer = client.channel()
            consumer.call("basic.qos", prefetch_count=1)
            consumer.call("basic.consume", queue=queue)
            confirms = Confirms(producer.channel())
            for _ in range(3 * LENT_COUNT):
                confirms.publish(b"x", queue)
        found = wait_for(
            lambda: {each["queue"]: each for each in incidents_of(tmp_path) if "report" in each["actions"]}
        )
        assert found
        assert set(settled(lambda: [client.channel().depth(queue) for queue in "ab"])) != {STOP}
        reported = {each["name"]: each for each in orjson.loads(broker.penstock("status", "--json").stdout)["queues"]}
        for queue in "ab":
            assert reported[queue]["lent_count"] == LENT_COUNT < reported[queue]["over_count_bound"]
            assert 0 < reported[queue]["beyond_count"] <= reported[queue]["over_count_bound"]
        assert f"lent {LENT_COUNT} messages, 0 bytes" in broker.penstock("flow", "explain", "a").stdout


class Transactor:
    """A client that commits publishes to one queue together with acks of its deliveries from another."""

    def __init__(self, broker: Broker, source: str, target: str) -> None:
        self.channel = Client.connect(broker.address).channel()
        self.channel.call("tx.select")
        self.channel.call("basic.qos", prefetch_count=2 * STOP)
        self.channel.call("basic.consume", queue=source)
        self.target = target

    def commit(self) -> None:
        for _ in range(STOP + STOP // 2):
            self.channel.publish(b"x", self.target)
        self.channel.send("tx.commit")

    def committed(self) -> None:
        self.channel.take("tx.commit-ok", timeout=60)


def test_commits_that_wait_for_each_other_go_on(tmp_path: Path) -> None:
    with Broker(tmp_path, f"flow.deadlock_seconds={SECONDS}") as broker:
        with Client.connect(broker.address) as client:
            for queue in ("a", "b"):
                client.channel().call("queue.declare", queue=queue, arguments=MARKS)
        pair = Transactor(broker, "a", "b"), Transactor(broker, "b", "a")
        for one in pair:
            one.commit()
            one.committed()
        for one in pair:
            one.channel.take("basic.deliver", timeout=60)
            one.channel.send("basic.ack", delivery_tag=0, multiple=True)
            one.commit()
        for one in pair:
            one.committed()
        assert "queue lends" in broker.log
