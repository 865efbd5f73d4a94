"""The reader of a stream, called as Spark calls it, with a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_penstock.options import StreamOptions
from pyspark_penstock.stream import QueueStreamReader
from tests.broker import Broker
from tests.pyspark_penstock.queues import fill, numbers, wait_held
from tests.raw import Channel
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

Offset = dict[str, int]


@pytest.fixture
def reader(url: str, channel: Channel, queue: str) -> Iterator[QueueStreamReader]:
    fill(channel, queue, 100)
    reader = QueueStreamReader(StreamOptions(queue=queue, url=url, maxrows=20))
    yield reader
    if reader._receiver:
        reader._receiver.close()


def batch(reader: QueueStreamReader, start: Offset) -> tuple[list[int], Offset]:
    """Return the next batch that is not empty."""

    def next_one() -> tuple[list[int], Offset] | None:
        rows, end = reader.read(start)
        found = numbers(rows)
        assert end["n"] == start["n"] + len(found)
        return (found, end) if found else None

    return wait_for(next_one, what="messages")


def test_it_acks_a_batch_when_it_is_asked_for_the_next(broker: Broker, reader: QueueStreamReader, queue: str) -> None:
    taken: list[int] = []
    offset = reader.initialOffset()
    while len(taken) < 60:
        rows, offset = batch(reader, offset)
        assert len(rows) <= 20
        taken += rows
    assert taken == list(range(len(taken)))
    wait_held(broker, queue, 100 - len(taken) - 40 + len(rows), 40)
    while offset["n"] < 100:
        rows, offset = batch(reader, offset)
    wait_held(broker, queue, 0, len(rows))
    rest, end = reader.read(offset)
    assert not list(rest) and end == offset
    wait_held(broker, queue, 0, 0)


def test_a_run_goes_on_from_the_offset_of_the_one_before(broker: Broker, reader: QueueStreamReader, queue: str) -> None:
    assert list(reader.readBetweenOffsets({"n": 900}, {"n": 1000})) == []
    reader.commit({"n": 1000})
    rows, end = batch(reader, {"n": 1000})
    assert rows[0] == 0 and end["n"] == 1000 + len(rows)
    reader.commit(end)
    wait_held(broker, queue, 100 - len(rows) - 40, 40)


def test_what_was_ready_at_the_beginning_is_drained_and_acked_and_no_more(
    broker: Broker, reader: QueueStreamReader, channel: Channel, queue: str
) -> None:
    reader.prepareForTriggerAvailableNow()
    rows, offset = batch(reader, {"n": 7})
    fill(channel, queue, 30, first=100)
    total = list(rows)
    while True:
        more, end = reader.read(offset)
        if end == offset:
            break
        total += numbers(more)
        offset = end
    assert total == list(range(100)) and offset == {"n": 107}
    assert reader._receiver
    reader._receiver.close()
    wait_held(broker, queue, 30, 0)


def test_draining_does_not_wait_for_what_other_consumers_have(
    broker: Broker, reader: QueueStreamReader, channel: Channel, queue: str
) -> None:
    channel.call("basic.qos", prefetch_count=10)
    channel.call("basic.consume", queue=queue, consumer_tag="other")
    wait_held(broker, queue, 90, 10)
    reader.prepareForTriggerAvailableNow()
    offset: Offset = {"n": 0}
    while True:
        _, end = reader.read(offset)
        if end == offset:
            break
        offset = end
    assert offset == {"n": 90}
