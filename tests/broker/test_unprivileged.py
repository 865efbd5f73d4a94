"""Mere subscribers cannot stop producers, and a lagging queue does not set everyone's pace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from tests.broker import Broker
from tests.broker.flow import settled_depth
from tests.outcomes import Confirms, wait_depth, wait_get
from tests.producers import STAMP, Drain, Ledger, Producers
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

HOSTILE = {"x-overflow": "flow", "x-max-length": 1}


class Anything(Ledger):
    """A ledger that accepts gaps, because messages were dropped."""

    def note(self, body: bytes) -> None:
        self.total += 1


def subscribe(channel: Channel) -> str:
    """Return the queue of a client that subscribes to everything and acknowledges nothing."""
    queue = str(channel.call("queue.declare", exclusive=True, arguments=HOSTILE).queue)
    channel.call("queue.bind", queue=queue, exchange="amq.fanout")
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, consumer_tag="hostile")
    return queue


@pytest.mark.usefixtures("broker")
def test_a_hostile_subscriber_cannot_stop_an_exchange(
    connect: Callable[..., Client], channel: Channel, names: Callable[[str], str]
) -> None:
    """A hostile subscriber cannot delay confirms or slow others down either; its messages are kept for it."""
    hostile, count = connect().channel(), 5000
    own, work = subscribe(hostile), names("work")
    channel.call("queue.declare", queue=work, durable=True, arguments={"x-overflow": "flow", "x-max-length": 2 * count})
    channel.call("queue.bind", queue=work, exchange="amq.fanout")
    confirms = Confirms(connect().channel())
    for number in range(count):
        confirms.publish(b"%d" % number, "", "amq.fanout")
    confirms.wait()
    assert not confirms.nacked
    wait_depth(channel, work, count)
    first = hostile.take("basic.deliver")
    assert first.body == b"0"
    hostile.call("basic.cancel", consumer_tag="hostile")
    for number in range(1, 100):
        assert wait_get(hostile, own).body == b"%d" % number
    channel.call("queue.delete", queue=work)


def test_an_operator_can_choose_otherwise_and_is_told(tmp_path: Path) -> None:
    with Broker(tmp_path, "flow.unprivileged_limit=1 MiB") as broker, Client.connect(broker.address) as client:
        hostile = client.channel()
        own = subscribe(hostile)
        reported = orjson.loads(broker.penstock("flow", "explain", own, "--json").stdout)
        settings = {each["setting"]: (each["value"], each["source"]) for each in reported["settings"]}
        assert settings["stops-producers"] == ("no", "exclusive queue")
        assert settings["overflow"][0] == "spill, then ring"
        hostile.call("queue.declare", queue="events")
        hostile.call("queue.bind", queue="events", exchange="amq.flow", routing_key="#")
        with Producers(broker.address, [own], size=1000, count=3000) as producers:
            wait_for(lambda: producers.done, what="all of it to be published")
            wait_for(lambda: "drops its oldest" in broker.log, what="the oldest to go")
        assert wait_get(hostile, "events").routing_key == f"spills./.{own}"
        assert wait_get(hostile, "events").routing_key == f"drops./.{own}"
        assert 500 < hostile.depth(own) * 1064 // 1000 < 1100
        broker.penstock("policy", "set", "trusted", "^amq.gen-", '{"overflow": "flow"}', "--apply-to", "queues")
        with Producers(broker.address, [own], size=1000, count=1000):
            held = wait_for(lambda: orjson.loads(broker.penstock("flow", "--json").stdout), what="somebody to be held")
            assert own in str(held)
            Drain(client, own, ledger=Anything()).take(500)


def test_the_slowest_subscriber_does_not_set_everyones_pace(
    broker: Broker, connect: Callable[..., Client], channel: Channel, names: Callable[[str], str]
) -> None:
    """With an inherited limit, the messages of a dead subscriber are kept on disk, which the status shows."""
    exchange, quick, dead, count = names("x"), names("quick"), names("dead"), 20_000
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    broker.penstock("policy", "set", exchange, f"^{exchange}$", '{"flow-stop-count": 1000}', "--apply-to", "exchanges")
    for queue in (quick, dead):
        channel.call("queue.declare", queue=queue, durable=True)
        channel.call("queue.bind", queue=queue, exchange=exchange)
    consumer = Drain(connect(), quick)
    publisher = Confirms(connect().channel())
    for number in range(count):
        publisher.publish(STAMP.pack(0, number), "", exchange)
    consumer.take(count)
    wait_depth(channel, dead, count)
    publisher.wait()
    reported = orjson.loads(broker.penstock("status", "--json").stdout)["queues"]
    (found,) = [each for each in reported if each["name"] == dead]
    assert found["lagging"] and found["beyond_count"] == count - 1000
    broker.penstock("policy", "delete", exchange)
    Drain(connect(), dead).take(count)
    for queue in (quick, dead):
        channel.call("queue.delete", queue=queue)
    channel.call("exchange.delete", exchange=exchange)


def test_a_policy_makes_the_slowest_set_the_pace(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        broker.penstock("policy", "set", "limit", "", '{"flow-stop-count": 200}', "--node", "--apply-to", "vhosts")
        for queue in ("quick", "dead"):
            channel.call("queue.declare", queue=queue, durable=True)
            channel.call("queue.bind", queue=queue, exchange="amq.fanout")
        broker.penstock("policy", "set", "all", "^amq.fanout$", '{"flow-share": "0 %"}', "--apply-to", "exchanges")
        channel.call("basic.consume", queue="quick", no_ack=True)
        publisher = Client.connect(broker.address).channel()
        for _ in range(1000):
            publisher.publish(b"x", "", "amq.fanout")
        assert settled_depth(client.channel(), "dead") < 300
        reported = orjson.loads(broker.penstock("flow", "--json").stdout)
        assert "queue 'dead'" in str(reported)
        broker.penstock("policy", "delete", "all")
        wait_depth(client.channel(), "dead", 1000)
        publisher.client.close()
