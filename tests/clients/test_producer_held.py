"""`penstock.client` behind a full queue, and when it loses its connection."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Closed, FlowCommand, Full, Producer, Rejected, TimedOut
from penstock.client.aio import AsyncProducer
from tests.broker import Broker
from tests.broker.flow import MARKS, STOP
from tests.clients.conftest import Make
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

HELD_SECONDS = 60.0


def fill(producer: Producer, queue: str) -> int:
    """Send until the broker holds the producer; return the number of messages sent. A full window does not count."""
    sent = 0

    def stopped() -> bool:
        nonlocal sent
        seconds = producer.metrics().held_seconds_by_cause
        if seconds["flow"] or seconds["blocked"]:
            return True
        receipt = producer.send(b"%d" % sent, queue, on_full="drop")
        sent += receipt is not None
        return False

    wait_for(stopped, HELD_SECONDS, "held", interval=0)
    return sent


@pytest.mark.usefixtures("broker")
def test_a_full_queue_holds_it_in_every_way_it_can_be_asked_for(
    make: Make, url: str, channel: Channel, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    with caplog.at_level(logging.INFO, "penstock.client"):
        producer = make(url, window_count=10 * STOP, report_seconds=0.2)
        sent = fill(producer, queue)
        with pytest.raises(Full, match=rf"channel.flow of .*|connection.blocked of .*queue '{queue}' in vhost '/'"):
            producer.send(b"no", queue, on_full="raise")
        assert producer.send(b"no", queue, on_full="drop") is None
        wait_for(lambda: producer.metrics().held_seconds_by_cause["blocked"], what="connection.blocked")
        with pytest.raises(TimedOut, match=f"messages, resume at|queue '{queue}'"):
            producer.send(b"no", queue, timeout=1.5)
        wait_for(lambda: any("still blocked for" in line for line in caplog.messages), what="the report of who waits")
        assert sent >= STOP
        for number in range(sent):
            event = wait_for(lambda: channel.get(queue), HELD_SECONDS)
            assert event.body == b"%d" % number
        receipt = producer.send(b"at last", queue, timeout=HELD_SECONDS)
        assert receipt and receipt.result(HELD_SECONDS)
        producer.flush(HELD_SECONDS)
    metrics = producer.metrics()
    assert metrics.confirmed == metrics.accepted == sent + 1
    assert metrics.held_seconds_by_cause["flow"] > 0 and metrics.held_seconds_by_cause["blocked"] > 0
    assert metrics.timed_out == 1 and metrics.full == 1
    said = [record.getMessage() for record in caplog.records]
    for what in ("channel.flow from", "connection.blocked from", "connection.unblocked from", "still blocked for"):
        assert any(line.startswith(what) for line in said), (what, said)


async def fill_async(producer: AsyncProducer, queue: str) -> list[asyncio.Future[str]]:
    """Like `fill`, but return the receipts."""
    receipts = []
    while not {"flow", "blocked"} & set(held_by(producer)):
        receipt = await producer.send(b"x", queue, on_full="drop")
        receipts += [] if receipt is None else [receipt]
        await asyncio.sleep(0)
    return receipts


def held_by(producer: Producer | AsyncProducer) -> list[str]:
    return [cause for cause, seconds in producer.metrics().held_seconds_by_cause.items() if seconds]


LATE = r"(channel\.flow|connection\.blocked) of "


@pytest.mark.usefixtures("broker")
def test_the_end_of_with_waits_no_longer_than_it_is_told(url: str, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    filling = Producer(url, window_count=10 * STOP)
    try:
        fill(filling, queue)
        receipts: list[Future[str] | None] = []
        with pytest.raises(TimedOut, match=LATE):
            send_within(url, queue, receipts, None, close_seconds=0.3)
        with pytest.raises(RuntimeError, match="by itself"):
            send_within(url, queue, receipts, RuntimeError("by itself"))
        assert [type(receipt.exception(0)) for receipt in receipts if receipt] == [Closed, Closed]
    finally:
        filling.close(0)


def send_within(
    url: str, queue: str, receipts: list[Future[str] | None], error: Exception | None, **options: Any
) -> None:
    """In a `with` block, send a message that the queue has no room for, then raise `error` if it is given."""
    with Producer(url, **options) as producer:
        receipts.append(producer.send(b"x", queue))
        wait_for(lambda: {"flow", "blocked"} & set(held_by(producer)))
        if error is not None:
            raise error


@pytest.mark.usefixtures("broker")
def test_the_end_of_async_with_waits_no_longer_than_it_is_told(url: str, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)

    async def main() -> list[asyncio.Future[str]]:
        async with AsyncProducer(url, window_count=10 * STOP, close_seconds=0.3) as producer:
            receipts = await fill_async(producer, queue)
            raised.append(producer)
        return receipts

    raised: list[AsyncProducer] = []
    with pytest.raises(TimedOut, match=LATE):
        asyncio.run(main())
    assert raised[0].metrics().given_up > 0 == raised[0].metrics().unconfirmed


@pytest.mark.usefixtures("broker")
def test_a_program_is_told_each_flow_command(make: Make, url: str, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    reported: list[FlowCommand] = []
    # At the stop, too little is parked to pause the socket: a paused connection gets no channel.flow.
    producer = make(url, window_count=2 * STOP, on_flow=reported.append)
    fill(producer, queue)
    wait_for(lambda: {command.by for command in reported if command.held} == {"flow", "blocked"})

    def may_go_on() -> bool:
        channel.call("queue.purge", queue=queue)  # repeatedly: parked messages may fill the queue once more
        return {command.by for command in reported if not command.held} == {"flow", "blocked"}

    wait_for(may_go_on)
    assert any(f"queue '{queue}' in vhost '/'" in command.reason for command in reported)
    assert all((command.seconds > 0) is not command.held for command in reported)


@pytest.mark.usefixtures("broker")
def test_what_is_in_a_full_queue_is_confirmed_as_it_empties(make: Make, url: str, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    producer = make(url, window_count=5)
    sent = fill(producer, queue)
    assert 0 < producer.metrics().unconfirmed <= 5
    for _ in range(sent):
        wait_for(lambda: channel.get(queue), HELD_SECONDS)
    producer.flush(HELD_SECONDS)
    assert producer.metrics().confirmed >= sent


@pytest.mark.usefixtures("broker")
def test_a_queue_that_refuses_after_a_time_says_which_and_how_long_to_wait(
    make: Make, url: str, channel: Channel, queue: str
) -> None:
    channel.call("queue.declare", queue=queue, arguments={**MARKS, "x-hold": "park 1 s, reject"})
    filler = channel.client.channel()
    for number in range(STOP + 1):
        filler.publish(b"%d" % number, queue)
    wait_for(lambda: channel.depth(queue) > STOP)
    producer = make(url, window_count=10 * STOP)
    receipt = producer.send(b"one too many", queue)
    error = receipt and receipt.exception(HELD_SECONDS)
    assert isinstance(error, Rejected) and error.headers.get("x-flow-queue") == queue
    assert producer.metrics().rejected == 1


def test_it_comes_back_and_sends_again_what_was_not_confirmed(make: Make, tmp_path: Path) -> None:
    """Acceptors die repeatedly: no confirmed message is missing, and first arrivals are in order."""
    with Broker(tmp_path, acceptors=2, shards=1) as broker:
        with Client.connect(broker.address) as client:
            client.channel().call("queue.declare", queue="work", durable=True)
        producer = make(broker.address.url, window_count=40, reconnect_seconds=0.5)
        receipts = []
        for number in range(600):
            receipts.append(producer.send(b"%d" % number, "work", timeout=HELD_SECONDS))
            if number in (150, 300, 450):
                for index in (0, 1):
                    pid = broker.kill("acceptor", index)
                    broker.wait_replaced("acceptor", pid)
        producer.flush(HELD_SECONDS)
        assert all(receipt and receipt.result(0) for receipt in receipts)
        metrics = producer.metrics()
        assert metrics.connections > 1 and metrics.confirmed == 600
        with Client.connect(broker.address) as client:
            channel = client.channel()
            bodies = [int(wait_for(lambda: channel.get("work")).body) for _ in range(channel.depth("work"))]
        assert list(dict.fromkeys(bodies)) == list(range(600))


def test_it_waits_for_a_node_that_is_down_and_can_give_up(make: Make, tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        with Client.connect(broker.address) as client:
            client.channel().call("queue.declare", queue="work", durable=True)
        producer = make(broker.address.url, give_up_seconds=1.0)
        broker.stop()
        wait_for(lambda: producer.metrics().held, HELD_SECONDS)
        with pytest.raises(ConnectionError, match="no connection"):
            producer.send(b"never", "work", timeout=HELD_SECONDS)
        broker.start()
