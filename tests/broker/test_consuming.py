"""Deliveries, acknowledgements, prefetch and turns (specification: class Basic, sections 3.1.5 and 4.7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from tests.broker import Broker
from tests.frames import Event
from tests.outcomes import Confirms, bodies, wait_depth, wait_get
from tests.raw import Channel, Client
from tests.waiting import settled, wait_for

pytestmark = pytest.mark.broker


def fill(channel: Channel, queue: str, numbers: Iterable[int]) -> None:
    """Declare the queue if it is missing, and publish the numbers as text."""
    channel.call("queue.declare", queue=queue)
    for number in numbers:
        channel.publish(b"%d" % number, queue)


def deliveries(channel: Channel, count: int) -> list[Event]:
    return [channel.take("basic.deliver") for _ in range(count)]


def numbers(events: Iterable[Event]) -> list[int]:
    return [int(event.body) for event in events]


def arrived(channel: Channel) -> int:
    return sum(event.name == "basic.deliver" for event in channel.pending())


def test_consume_ok_comes_before_the_first_delivery(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(3))
    channel.send("basic.consume", queue=queue)
    first = channel.next()
    assert first.name == "basic.consume-ok"
    assert first.consumer_tag.startswith("amq.ctag-")
    delivered = deliveries(channel, 3)
    assert {event.consumer_tag for event in delivered} == {first.consumer_tag}
    assert [event.delivery_tag for event in delivered] == [1, 2, 3]
    assert [(event.exchange, event.routing_key, event.redelivered) for event in delivered] == [("", queue, False)] * 3


def test_tags_are_shared_by_deliver_and_get(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(1))
    got = channel.get(queue, no_ack=False)
    assert got and got.delivery_tag == 1
    channel.call("basic.consume", queue=queue)
    fill(channel, queue, range(1))
    assert channel.take("basic.deliver").delivery_tag == 2


def test_get(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(2))
    wait_depth(channel, queue, 2)
    first = channel.get(queue)
    assert first and (first.body, first.messages, first.redelivered) == (b"0", 1, False)
    second = channel.get(queue)
    assert second and (second.body, second.messages) == (b"1", 0)
    assert channel.get(queue) is None


def test_ack_one_by_one(client: Client, queue: str) -> None:
    """Acked messages never come back; unacked ones come back when the channel closes."""
    channel = client.channel()
    fill(channel, queue, range(5))
    channel.call("basic.consume", queue=queue)
    for event in deliveries(channel, 5):
        if event.delivery_tag % 2:
            channel.send("basic.ack", delivery_tag=event.delivery_tag)
    channel.call("channel.close")
    again = client.channel()
    wait_depth(again, queue, 2)
    assert bodies(again, queue) == [b"1", b"3"]


def test_ack_multiple(client: Client, queue: str) -> None:
    channel = client.channel()
    fill(channel, queue, range(6))
    channel.call("basic.consume", queue=queue)
    deliveries(channel, 6)
    channel.send("basic.ack", delivery_tag=2)
    channel.send("basic.ack", delivery_tag=4, multiple=True)
    channel.call("channel.close")
    again = client.channel()
    wait_depth(again, queue, 2)
    assert bodies(again, queue) == [b"4", b"5"]


def test_ack_zero_multiple_is_all(client: Client, queue: str) -> None:
    channel = client.channel()
    fill(channel, queue, range(6))
    channel.send("basic.ack", delivery_tag=0, multiple=True)
    channel.call("basic.consume", queue=queue)
    deliveries(channel, 6)
    channel.send("basic.ack", delivery_tag=0, multiple=True)
    channel.call("channel.close")
    assert client.channel().call("queue.declare", queue=queue, passive=True).messages == 0


def test_ack_multiple_over_several_queues(client: Client) -> None:
    channel = client.channel()
    queues = [channel.call("queue.declare", exclusive=True).queue for _ in range(4)]
    for queue in queues:
        fill_exclusive(channel, queue, 5)
        channel.call("basic.consume", queue=queue)
    deliveries(channel, 20)
    channel.send("basic.ack", delivery_tag=18, multiple=True)
    channel.call("channel.close")
    again = client.channel()
    wait_for(lambda: sum(again.depth(queue) for queue in queues) == 2)


def fill_exclusive(channel: Channel, queue: str, count: int) -> None:
    for number in range(count):
        channel.publish(b"%d" % number, queue)


@pytest.mark.parametrize("method", ["basic.reject", "basic.nack"])
@pytest.mark.parametrize("requeue", [True, False])
def test_reject_and_nack(channel: Channel, queue: str, method: str, requeue: bool) -> None:
    fill(channel, queue, [7])
    wait_depth(channel, queue, 1)
    got = channel.get(queue, no_ack=False)
    assert got
    channel.send(method, delivery_tag=got.delivery_tag, requeue=requeue)
    if not requeue:
        assert channel.get(queue) is None
        return
    again = wait_get(channel, queue, no_ack=False)
    assert (again.body, again.redelivered) == (b"7", True)


def test_nack_multiple_requeues_all_in_order(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(5))
    wait_depth(channel, queue, 5)
    tags = [event.delivery_tag for _ in range(4) if (event := channel.get(queue, no_ack=False))]
    channel.send("basic.nack", delivery_tag=tags[-1], multiple=True, requeue=True)
    wait_depth(channel, queue, 5)
    found = [channel.get(queue) for _ in range(5)]
    assert [event and (event.body, event.redelivered) for event in found] == [
        *((b"%d" % number, True) for number in range(4)),
        (b"4", False),
    ]


def test_requeue_goes_back_to_the_original_place(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(10))
    wait_depth(channel, queue, 10)
    tags = [event.delivery_tag for _ in range(8) if (event := channel.get(queue, no_ack=False))]
    for tag in (tags[5], tags[1], tags[3]):
        channel.send("basic.reject", delivery_tag=tag, requeue=True)
    wait_depth(channel, queue, 5)
    assert bodies(channel, queue) == [b"1", b"3", b"5", b"8", b"9"]


def test_unacked_come_back_when_the_connection_dies(
    connect: Callable[[], Client], channel: Channel, queue: str
) -> None:
    fill(channel, queue, range(6))
    consumer = connect()
    consumers = consumer.channel()
    consumers.call("basic.consume", queue=queue)
    deliveries(consumers, 6)
    consumers.send("basic.ack", delivery_tag=1)
    consumers.call("queue.declare", exclusive=True)
    consumer.kill()
    wait_depth(channel, queue, 5)
    channel.call("basic.consume", queue=queue)
    found = deliveries(channel, 5)
    assert numbers(found) == [1, 2, 3, 4, 5]
    assert all(event.redelivered for event in found)


def test_unacked_go_to_another_consumer(connect: Callable[[], Client], channel: Channel, queue: str) -> None:
    fill(channel, queue, range(4))
    first, second = connect(), connect()
    one, two = first.channel(), second.channel()
    one.call("basic.consume", queue=queue)
    deliveries(one, 4)
    two.call("basic.consume", queue=queue)
    first.close()
    assert [(int(event.body), event.redelivered) for event in deliveries(two, 4)] == [(n, True) for n in range(4)]


def test_recover_requeues_what_the_channel_holds(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(3))
    channel.call("basic.consume", queue=queue)
    deliveries(channel, 3)
    channel.send("basic.ack", delivery_tag=2)
    channel.call("basic.recover", requeue=True)
    again = deliveries(channel, 2)
    assert [(int(event.body), event.redelivered, event.delivery_tag) for event in again] == [(0, True, 4), (2, True, 5)]


def test_recover_async_is_not_answered(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(1))
    channel.call("basic.consume", queue=queue)
    deliveries(channel, 1)
    channel.send("basic.recover-async", requeue=True)
    assert channel.next().name == "basic.deliver"


def test_cancel_leaves_deliveries_unacked(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(3))
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    delivered = deliveries(channel, 3)
    assert channel.call("basic.cancel", consumer_tag="c").consumer_tag == "c"
    fill(channel, queue, [3])
    wait_depth(channel, queue, 1)
    assert not arrived(channel)
    channel.send("basic.ack", delivery_tag=delivered[0].delivery_tag)
    channel.send("basic.reject", delivery_tag=delivered[1].delivery_tag, requeue=True)
    wait_depth(channel, queue, 2)
    assert bodies(channel, queue) == [b"1", b"3"]


def test_cancel_of_an_unknown_consumer(channel: Channel) -> None:
    assert channel.call("basic.cancel", consumer_tag="never").consumer_tag == "never"


def test_consumer_is_told_when_its_queue_goes(connect: Callable[[], Client], channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    consumer = connect().channel()
    consumer.call("basic.consume", queue=queue, consumer_tag="c")
    channel.call("queue.delete", queue=queue)
    assert consumer.take("basic.cancel").consumer_tag == "c"


def test_who_deletes_a_queue_that_it_consumes_from_is_answered_before_it_is_told(channel: Channel, queue: str) -> None:
    """As in RabbitMQ: some clients drop the consumer when they receive delete-ok."""
    for _ in range(20):
        channel.call("queue.declare", queue=queue)
        channel.call("basic.consume", queue=queue, consumer_tag="c")
        channel.send("queue.delete", queue=queue)
        assert [channel.next().name for _ in range(2)] == ["queue.delete-ok", "basic.cancel"]


def test_cancel_ok_of_a_client_is_accepted(broker: Broker, queue: str) -> None:
    """Some clients answer the broker's basic.cancel, which RabbitMQ rejected until 4.3."""
    with Client.connect(broker.address) as client:
        consumer, other = client.channel(), client.channel()
        other.call("queue.declare", queue=queue)
        consumer.call("basic.consume", queue=queue, consumer_tag="c")
        other.call("queue.delete", queue=queue)
        consumer.take("basic.cancel")
        consumer.send("basic.cancel-ok", consumer_tag="c")
        assert consumer.call("queue.declare", exclusive=True).queue


def test_exclusive_consumer(connect: Callable[[], Client], channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    channel.call("basic.consume", queue=queue, exclusive=True, consumer_tag="c")
    for exclusive in (False, True):
        other = connect().channel()
        other.send("basic.consume", queue=queue, exclusive=exclusive)
        refused = other.closed()
        assert (refused.code, refused.text) == (403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use")
    channel.call("basic.cancel", consumer_tag="c")
    connect().channel().call("basic.consume", queue=queue)


def test_prefetch_limits_a_consumer(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(10))
    channel.call("basic.qos", prefetch_count=3)
    channel.call("basic.consume", queue=queue)
    deliveries(channel, 3)
    assert settled(lambda: arrived(channel)) == 0
    channel.send("basic.ack", delivery_tag=2, multiple=True)
    assert numbers(deliveries(channel, 2)) == [3, 4]
    assert settled(lambda: arrived(channel)) == 0
    channel.send("basic.nack", delivery_tag=3, requeue=False)
    assert numbers(deliveries(channel, 1)) == [5]


def test_prefetch_is_per_consumer(channel: Channel, queue: str) -> None:
    """With global=false, the prefetch applies to each consumer started afterwards."""
    fill(channel, queue, range(20))
    channel.call("basic.qos", prefetch_count=2)
    channel.call("basic.consume", queue=queue, consumer_tag="two")
    channel.call("basic.qos", prefetch_count=4)
    channel.call("basic.consume", queue=queue, consumer_tag="four")
    found = Counter(event.consumer_tag for event in deliveries(channel, 6))
    assert found == {"two": 2, "four": 4}
    assert settled(lambda: arrived(channel)) == 0


def test_prefetch_of_the_channel_is_shared(channel: Channel, queue: str) -> None:
    """With global=true, the prefetch applies to all consumers of the channel together, at once; both limits hold."""
    fill(channel, queue, range(20))
    channel.call("basic.qos", prefetch_count=3)
    channel.call("basic.qos", prefetch_count=5, global_=True)
    channel.call("basic.consume", queue=queue, consumer_tag="a")
    channel.call("basic.consume", queue=queue, consumer_tag="b")
    found = Counter(event.consumer_tag for event in deliveries(channel, 5))
    assert max(found.values()) <= 3
    assert settled(lambda: arrived(channel)) == 0
    channel.call("basic.qos", prefetch_count=6, global_=True)
    deliveries(channel, 1)
    assert settled(lambda: arrived(channel)) == 0


def test_prefetch_of_the_channel_over_several_queues(channel: Channel) -> None:
    queues = [channel.call("queue.declare", exclusive=True).queue for _ in range(4)]
    channel.call("basic.qos", prefetch_count=5, global_=True)
    for queue in queues:
        fill_exclusive(channel, queue, 10)
        channel.call("basic.consume", queue=queue)
    total = 0
    while total < 40:
        got = deliveries(channel, min(5, 40 - total))
        assert settled(lambda: arrived(channel), quiet=0.1) == 0
        channel.send("basic.ack", delivery_tag=got[-1].delivery_tag, multiple=True)
        total += len(got)


def test_get_is_not_limited_by_prefetch(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(5))
    wait_depth(channel, queue, 5)
    channel.call("basic.qos", prefetch_count=1, global_=True)
    assert all(channel.get(queue, no_ack=False) for _ in range(5))


def test_no_ack_is_not_limited_by_prefetch(channel: Channel, queue: str) -> None:
    fill(channel, queue, range(50))
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.consume", queue=queue, no_ack=True)
    assert numbers(deliveries(channel, 50)) == list(range(50))


def test_consumers_take_turns(connect: Callable[[], Client], channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    consumers = [connect().channel() for _ in range(3)]
    for consumer in consumers:
        consumer.call("basic.qos", prefetch_count=1)
        consumer.call("basic.consume", queue=queue)
    for round_ in range(4):
        fill(channel, queue, range(3))
        for consumer in consumers:
            event = consumer.take("basic.deliver")
            consumer.send("basic.ack", delivery_tag=event.delivery_tag)
            assert event.delivery_tag == round_ + 1
        for consumer in consumers:
            assert consumer.get(queue) is None  # answered behind the ack


def test_turns_without_limit_are_fair(connect: Callable[[], Client], channel: Channel, queue: str) -> None:
    """A queue filled while its consumers are attached is shared evenly among them, give or take a batch."""
    channel.call("queue.declare", queue=queue)
    consumers = [connect().channel() for _ in range(4)]
    for consumer in consumers:
        consumer.call("basic.consume", queue=queue, no_ack=True)
    confirms = Confirms(channel)
    for number in range(400):
        confirms.publish(b"%d" % number, queue)
        if number % 10 == 0:
            confirms.wait()
    shares = wait_for(lambda: counts if sum(counts := [arrived(consumer) for consumer in consumers]) == 400 else None)
    assert min(shares) >= 50, shares


def test_busy_consumer_does_not_hold_up_the_others(connect: Callable[[], Client], channel: Channel, queue: str) -> None:
    """Fair dispatch: with prefetch 1, work goes to the consumer that is free."""
    channel.call("queue.declare", queue=queue)
    busy, free = connect().channel(), connect().channel()
    for consumer in (busy, free):
        consumer.call("basic.qos", prefetch_count=1)
        consumer.call("basic.consume", queue=queue)
    fill(channel, queue, range(20))
    busy.take("basic.deliver")
    for _ in range(19):
        event = free.take("basic.deliver")
        free.send("basic.ack", delivery_tag=event.delivery_tag)


def test_many_consumers_on_one_channel(channel: Channel) -> None:
    queues = [channel.call("queue.declare", exclusive=True).queue for _ in range(50)]
    for number, queue in enumerate(queues):
        channel.call("basic.consume", queue=queue, consumer_tag=f"c{number}", no_ack=True)
    for number, queue in enumerate(queues):
        channel.publish(b"%d" % number, queue)
    found = {event.consumer_tag: event.body for event in deliveries(channel, 50)}
    assert found == {f"c{number}": b"%d" % number for number in range(50)}


def test_consumer_that_does_not_read_harms_nobody(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    """A consumer without a limit whose socket is full delays no other client and loses nothing."""
    stuck = connect(receive_buffer=4096).channel()
    stuck.call("queue.declare", queue=queue)
    stuck.call("basic.consume", queue=queue)
    body = bytes(100_000)
    for _ in range(200):
        channel.publish(body, queue)
    other = channel.call("queue.declare", exclusive=True).queue
    channel.publish(b"x", other)
    assert wait_get(channel, other)
    stuck.client.kill()
    wait_depth(channel, queue, 200)
