"""A stop interrupted by a restart is one incident from its real beginning, and each held producer counts once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from console.flow.incidents import incidents
from penstock.flow.flow_events import INCIDENT_SECONDS
from tests.broker import Broker
from tests.broker.flow import MARKS, RESUME, STOP
from tests.outcomes import wait_get
from tests.raw import CAPABILITIES, Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

PERSISTENT = 2


def producing(broker: Broker) -> Client:
    return Client.connect(broker.address, properties={"capabilities": CAPABILITIES, "product": "x"})


def is_noted(directory: Path, file: str = "open_stops/shard.0") -> bool:
    """Whether the file of open stops, or of open holds, has the stop, which has lasted a second then."""
    path = directory / "data" / f"{file}.json"
    return path.exists() and [each["queue"] for each in orjson.loads(path.read_bytes())] == ["work"]


def kept_seconds(broker: Broker) -> float:
    """Return how long producers were held at the queue, according to the acceptor's file."""
    path = broker.directory / "data" / "accounts" / "acceptor.0.json"
    kept = orjson.loads(path.read_bytes()) if path.exists() else []
    return sum(each["seconds"] for each in kept if each["by"] == "queue")


def stop(broker: Broker, channel: Channel, producer: Client) -> float:
    """Fill a durable queue a little beyond its stop mark; return the beginning of the stop, in seconds since 1970."""
    channel.call("queue.declare", queue="work", durable=True, arguments=MARKS)
    publishing = producer.channel()
    for number in range(STOP + 20):
        publishing.publish(b"%d" % number, "work", delivery_mode=PERSISTENT)
    producer.take("connection.blocked")
    wait_held(broker)
    wait_for(lambda: is_noted(broker.directory), what="the stop in the file of open ones")
    return begun(broker)


def wait_held(broker: Broker) -> None:
    """Wait until a producer has been held long enough for an incident, not a short stop."""
    wait_for(lambda: [each for each in broker.held() if each["held_seconds"] > INCIDENT_SECONDS], what="an incident")


def begun(broker: Broker) -> float:
    (queue,) = broker.queues()
    assert queue.saturated and queue.peak_count > STOP
    return queue.saturated_since_us / 1e6


def resume(channel: Channel) -> None:
    while channel.depth("work") > RESUME:
        wait_get(channel, "work")


def found(broker: Broker) -> list[dict[str, Any]]:
    return [each for each in incidents(broker.directory / "data") if each["queue"] == "work"]


def test_a_stop_during_which_its_shard_is_killed(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        with Client.connect(broker.address) as consumer, producing(broker) as producer:
            channel = consumer.channel()
            since = stop(broker, channel, producer)
            broker.wait_replaced("shard", broker.kill("shard"))
            # Before publishes in flight to the dead shard are sent again, the depth does not include them.
            wait_for(lambda: channel.depth("work") > STOP, what="its next incarnation to have all of it")
            assert begun(broker) == since
            resume(channel)
            producer.take("connection.unblocked")
            wait_for(lambda: [each for each in found(broker) if each["victims"]], what="the incident")
        (incident,) = found(broker)
    assert incident["begun"] == since and incident["peak_count"] > STOP
    assert f"of {STOP} messages" in incident["cause"]
    assert (incident["holds"], len(incident["victims"])) == (1, 1)
    assert incident["actions"]["connection.blocked"] == 1


def test_a_stop_during_which_its_acceptor_is_killed(tmp_path: Path) -> None:
    """The next incarnation reports the holds of the dead acceptor; a producer that reconnects counts as another."""
    with Broker(tmp_path) as broker:
        with Client.connect(broker.address) as consumer, producing(broker) as producer:
            since = stop(broker, consumer.channel(), producer)
            wait_for(lambda: is_noted(broker.directory, "open_holds/acceptor.0"), what="who is held in its file")
            wait_for(lambda: kept_seconds(broker) > INCIDENT_SECONDS, what="for how long in its file")
            before = kept_seconds(broker)
            broker.wait_replaced("acceptor", broker.kill("acceptor"))
        broker.connect().socket.close()  # the new acceptor listens by now
        with Client.connect(broker.address) as consumer, producing(broker) as producer:
            channel, publishing = consumer.channel(), producer.channel()
            publishing.publish(b"again", "work", delivery_mode=PERSISTENT)
            wait_held(broker)
            resume(channel)
            wait_for(lambda: [each for each in found(broker) if len(each["victims"]) == 2], what="the incident")
            (account,) = orjson.loads(broker.penstock("flow", "ledger", "--json").stdout)
            assert account["seconds"] >= before + INCIDENT_SECONDS and account["stops"] == 2
        (incident,) = found(broker)
    assert (incident["begun"], incident["holds"]) == (since, 2)
    assert incident["held_seconds"] > 2 * INCIDENT_SECONDS


@pytest.mark.parametrize("killed", [True, False])
def test_a_stop_during_which_the_node_restarts(tmp_path: Path, killed: bool) -> None:
    """The holds of acceptors survive a restart of the node, even after they were killed."""
    with Broker(tmp_path) as broker:
        with Client.connect(broker.address) as consumer, producing(broker) as producer:
            since = stop(broker, consumer.channel(), producer)
            wait_for(lambda: is_noted(broker.directory, "open_holds/acceptor.0"), what="who is held in its file")
            if killed:
                broker.kill_all()
            else:
                broker.stop()
        broker.start()
        assert begun(broker) == since
        with Client.connect(broker.address) as consumer, producing(broker) as producer:
            channel, publishing = consumer.channel(), producer.channel()
            publishing.publish(b"again", "work", delivery_mode=PERSISTENT)
            producer.take("connection.blocked")
            wait_held(broker)
            resume(channel)
            producer.take("connection.unblocked")
            wait_for(lambda: [each for each in found(broker) if len(each["victims"]) == 2], what="the incident")
        (incident,) = found(broker)
        assert incident["begun"] == since and incident["peak_count"] > STOP
        assert (incident["holds"], incident["actions"]["connection.blocked"]) == (2, 2)
        wait_for(lambda: not is_noted(tmp_path), what="no stop in the file of open ones")
        broker.kill_all()
        broker.start()
        (queue,) = broker.queues()
        assert not queue.saturated
    assert [each["begun"] for each in found(broker)] == [since]
