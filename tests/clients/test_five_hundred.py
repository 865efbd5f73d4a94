"""500 producers of four real libraries on one queue: bounded overshoot, no producer lost, none starved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker import Broker
from tests.broker.flow import most
from tests.broker.ways import WAYS, listeners, way_to
from tests.clients.held import Held
from tests.clients.hold import LIBRARIES
from tests.producers import Drain
from tests.raw import Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.usefixtures("penstock_only")]

FOUR = [*LIBRARIES, "amqplib"]
EACH, COUNT, STOP = 125, 40, 2000
PATIENCE = 200.0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
def test_five_hundred_producers_of_four_libraries(way: str, tmp_path: Path) -> None:
    with (
        Broker(tmp_path, *listeners(), acceptors=2, shards=2) as broker,
        way_to(broker, way, tmp_path) as address,
        Client.connect(broker.address) as client,
    ):
        client.channel().call("queue.declare", queue="q", arguments={"x-flow-stop-count": STOP})
        started: list[Held] = []
        try:
            started.append(Held("pika", address, "q", tmp_path, STOP, 256, confirms=True, first=EACH * len(FOUR)))
            started[0].check_alive()
            for index, library in enumerate(FOUR):
                more = {"connections": EACH, "first": EACH * index}
                started.append(Held(library, address, "q", tmp_path, COUNT, 256, **more))
            # All but the few that published everything within the bound.
            wait_for(
                lambda: len(broker.held()) >= EACH * len(FOUR) - (most(STOP) - STOP) // COUNT, PATIENCE, "all held"
            )
            drain = Drain(client, "q", prefetch=100)
            drain.take(STOP + len(FOUR) * EACH * COUNT, PATIENCE)
            assert drain.ledger.next == dict.fromkeys(range(len(FOUR) * EACH), COUNT) | {len(FOUR) * EACH: STOP}
            for producers in started:
                producers.check_alive(PATIENCE)
        finally:
            for producers in started:
                producers.process.kill()
                producers.process.wait()
        (queue,) = broker.queues()
        assert STOP < queue.peak_count <= most(STOP)
