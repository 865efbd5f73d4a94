"""The consumer in a thread of its own, with a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_penstock.receiver import Receiver, ReceiverError
from tests.broker import Broker
from tests.clients.conftest import unused_port  # noqa: F401
from tests.pyspark_penstock.queues import fill, wait_held
from tests.raw import Channel
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker


def take(receiver: Receiver, count: int) -> list[bytes]:
    """Return `count` bodies, in order of arrival."""
    found: list[bytes] = []
    while len(found) < count:
        more = receiver.pop(count - len(found), PATIENCE)
        assert more, f"{len(found)} of {count} messages"
        found += [delivery.body for delivery in more]
    return found


@pytest.fixture
def receiver(url: str, channel: Channel, queue: str) -> Iterator[Receiver]:
    fill(channel, queue, 100)
    with Receiver(url, queue, 30) as receiver:
        yield receiver


def test_messages_come_in_order_and_no_more_than_may_be_in_hand(broker: Broker, receiver: Receiver, queue: str) -> None:
    assert receiver.ready == 100
    assert take(receiver, 30) == [b"%d" % number for number in range(30)]
    assert receiver.pop(1, 0.1) == []
    wait_held(broker, queue, 70, 30)
    receiver.ack(20)
    assert take(receiver, 20) == [b"%d" % number for number in range(30, 50)]
    assert receiver.count() == 50
    wait_held(broker, queue, 50, 30)


def test_so_many_are_gathered_or_what_there_is(receiver: Receiver) -> None:
    assert [int(each.body) for each in receiver.gather(25, PATIENCE)] == list(range(25))
    receiver.count()  # its answer comes behind all 30
    assert [int(each.body) for each in receiver.gather(25, 0.5)] == list(range(25, 30))
    assert receiver.gather(0, PATIENCE) == []


def test_what_was_not_acked_goes_back_when_it_is_closed(broker: Broker, receiver: Receiver, queue: str) -> None:
    take(receiver, 10)
    receiver.ack(5)
    receiver.count()
    receiver.close()
    wait_held(broker, queue, 95, 0)
    with pytest.raises(ReceiverError, match="closed"):
        receiver.pop(1, 0)


def test_draining_ends_where_there_is_no_more(receiver: Receiver, queue: str) -> None:
    drained = 0
    while deliveries := receiver.drain(1000):
        drained += len(deliveries)
        receiver.ack(deliveries[-1].tag)
    assert drained == 100 and receiver.count() == 0
    assert receiver.drain(0) == []


def test_its_death_is_told_to_whoever_asks(receiver: Receiver, channel: Channel, queue: str) -> None:
    channel.call("queue.delete", queue=queue)
    wait_for(lambda: _refused(receiver), what="an error")
    for ask in (lambda: receiver.pop(1, 0), lambda: receiver.ack(1), receiver.count):
        with pytest.raises(ReceiverError, match=f"queue '{queue}' at .*: the broker has cancelled the consumer"):
            ask()


def test_a_queue_that_is_not_there_and_a_broker_that_is_not_there_are_said(
    url: str, unused_port: int  # noqa: F811
) -> None:  # fmt: skip
    with pytest.raises(ReceiverError, match=r"queue 'none' at .*NOT_FOUND"), Receiver(url, "none", 1):
        pass
    with (
        pytest.raises(ReceiverError, match=r"queue 'q' at 127\.0\.0\.1:.*refused"),
        Receiver(f"amqp://127.0.0.1:{unused_port}", "q", 1),
    ):
        pass
    with pytest.raises(ReceiverError, match="no AMQP URL"):
        Receiver("amqp://host:port", "q", 1)


def _refused(receiver: Receiver) -> bool:
    try:
        receiver.pop(1, 0.1)
    except ReceiverError:
        return True
    return False
