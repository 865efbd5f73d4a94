"""No producer starves while a full queue drains. `load.fairness` measures how equal their shares are."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.control.control import Refusal
from tests.broker import Broker
from tests.broker.flow import most
from tests.broker.test_flow_overshoot import watched
from tests.producers import Drain, Producers
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

STOP = 2000
# The most times 20,000 messages are drained until every producer has had a share.
ROUNDS = 10


def split(broker: Broker, few: int, many: int) -> list[Client]:
    """Return clients: `few` connected to one acceptor and `many` to the other."""
    at: tuple[list[Client], list[Client]] = ([], [])
    pids = broker.children("acceptor")
    while min(map(len, at)) < few or max(map(len, at)) < many:
        client = Client.connect(broker.address)
        port = client.socket.getsockname()[1]
        found = [any(peer.raddr and peer.raddr.port == port for peer in connections(pid)) for pid in pids]
        at[found.index(True)].append(client)
    smaller, larger = sorted(at, key=len)
    for client in (*smaller[few:], *larger[many:]):
        client.socket.close()
    return [*smaller[:few], *larger[:many]]


def connections(pid: int) -> list[Any]:
    found: list[Any] = psutil.Process(pid).net_connections("tcp")
    return found


def test_a_hundred_equal_producers_of_which_most_are_at_one_acceptor(tmp_path: Path) -> None:
    """The first messages are those of the first producers; after that, every producer's messages arrive."""
    with (
        Broker(tmp_path, acceptors=2) as broker,
        watched(broker.address, "q", {"x-flow-stop-count": STOP, "x-flow-resume-count": STOP // 2}) as watch,
    ):
        with Producers(broker.address, ["q"] * 100, clients=split(broker, 30, 70)) as producers:
            wait_for(lambda: watch.check() >= STOP)
            drain = Drain(watch.client, "q")
            drain.take(20_000)
            before, found = Counter(drain.ledger.next), [0]
            for _ in range(ROUNDS):
                drain.take(20_000)
                found = [drain.ledger.next[number] - before[number] for number in range(100)]
                if min(found) > 0:
                    break
            assert producers.alive == 100
        assert min(found) > 0
        assert watch.deepest <= most(STOP)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_hundred_equal_producers_for_a_minute(tmp_path: Path) -> None:
    with (
        Broker(tmp_path, acceptors=2, shards=2) as broker,
        watched(broker.address, "q", {"x-flow-stop-count": STOP, "x-flow-resume-count": STOP // 2}) as watch,
        Producers(broker.address, ["q"] * 100) as producers,
    ):
        wait_for(lambda: watch.check() >= STOP)
        drain = Drain(watch.client, "q")
        until = time.monotonic() + 60
        while time.monotonic() < until:
            drain.take(1000)
            watch.check()
        assert producers.alive == 100
        assert min(drain.ledger.next[number] for number in range(100)) > 0
        assert watch.deepest <= most(STOP)


def test_what_shares_and_weights_cannot_be(broker: Broker, channel: Channel, queue: str) -> None:
    channel.send("queue.declare", queue=queue, arguments={"x-fair-by": "vhost"})
    closed = channel.closed()
    said = f"PRECONDITION_FAILED - invalid arg 'x-fair-by' for queue '{queue}' in vhost '/': invalid_fair_by"
    assert (closed.code, closed.text) == (406, said)
    for weight in (0, 1001, "3", True, 1.5):
        with pytest.raises(Refusal, match="key 'weight': expected a whole number from 1 to 1000"):
            broker.call("policy_set", vhost="/", operator=False, name=queue, pattern="^a$", apply_to="users",
                        priority=0, definition={"weight": weight})  # fmt: skip
