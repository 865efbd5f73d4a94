"""The reader of a stream with leases, called as Spark calls it in the driver and in tasks, with a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyspark_penstock import leased
from pyspark_penstock.leased import LeasedStreamReader
from pyspark_penstock.options import StreamOptions
from tests.broker import Broker
from tests.pyspark_penstock.queues import fill, numbers, wait_held
from tests.raw import Channel

pytestmark = pytest.mark.broker

Offset = dict[str, Any]
Make = Callable[[], LeasedStreamReader]


@pytest.fixture
def make(url: str, channel: Channel, queue: str) -> Iterator[Make]:
    """Yield a function that makes readers of a queue with 100 messages, 30 a batch, by two leases."""
    fill(channel, queue, 100)
    with ExitStack() as stack:

        def make() -> LeasedStreamReader:
            reader = LeasedStreamReader(StreamOptions(queue=queue, url=url, maxrows=30, leases=2))
            stack.callback(reader.stop)
            return reader

        yield make


def after(driver: LeasedStreamReader, start: Offset) -> Offset:
    return driver.latestOffset(start, ReadAllAvailable())


def tasks(make: Make, start: Offset, end: Offset) -> list[list[int]]:
    """Return the numbers that each task of a batch reads."""
    return [numbers(make().read(each)) for each in make().partitions(start, end)]


def test_a_batch_is_the_same_however_often_it_is_read_until_it_is_over(broker: Broker, make: Make, queue: str) -> None:
    driver = make()
    start = driver.initialOffset()
    end = after(driver, start)
    assert (end["batch"], end["rows"], end["leases"]) == (1, 30, 2)
    first = tasks(make, start, end)
    assert first == [list(range(15)), list(range(15, 30))]
    wait_held(broker, queue, 70, 30)
    assert tasks(make, start, end) == first
    second = after(driver, end)
    wait_held(broker, queue, 70, 0)
    assert tasks(make, end, second) == [list(range(30, 45)), list(range(45, 60))]
    assert make().partitions(second, second) == []


def test_another_driver_goes_on_where_the_first_was_killed(broker: Broker, make: Make, queue: str) -> None:
    driver = make()
    start = driver.initialOffset()
    end = after(driver, start)
    one, _ = make().partitions(start, end)
    assert numbers(make().read(one)) == list(range(15))
    driver.stop()
    assert tasks(make, start, end) == [list(range(15)), list(range(15, 30))]
    again = make()
    following = after(again, end)
    wait_held(broker, queue, 70, 0)
    again.stop()
    third = make()
    assert after(third, end) == following
    wait_held(broker, queue, 70, 0)


def test_queries_have_leases_of_their_own(make: Make) -> None:
    assert make().initialOffset()["query"] != make().initialOffset()["query"]


def test_what_was_ready_at_the_beginning_is_drained_and_no_more(
    broker: Broker, make: Make, channel: Channel, queue: str
) -> None:
    driver = make()
    driver.prepareForTriggerAvailableNow()
    start = driver.initialOffset()
    end = after(driver, start)
    fill(channel, queue, 20, first=100)
    found: list[int] = []
    while end != start:
        found += [number for task in tasks(make, start, end) for number in task]
        start, end = end, after(driver, end)
    assert found == list(range(100))
    wait_held(broker, queue, 20, 0)


def test_a_task_that_found_nothing_finds_nothing_again(
    broker: Broker, make: Make, channel: Channel, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other consumers were quicker. Later messages belong to later batches: this one may be in a sink already."""
    driver = make()
    start = driver.initialOffset()
    end = after(driver, start)
    channel.call("queue.purge", queue=queue)
    with monkeypatch.context() as hasty:
        hasty.setattr(leased, "SILENT_SECONDS", 0.5)
        assert tasks(make, start, end) == [[], []]
        fill(channel, queue, 10, first=100)
        assert tasks(make, start, end) == [[], []]
    again = make()
    second = after(again, end)
    assert (second["batch"], second["rows"]) == (2, 10)
    assert tasks(make, end, second) == [list(range(100, 105)), list(range(105, 110))]
    after(again, second)
    wait_held(broker, queue, 0, 0)


def test_a_task_that_was_cut_short_leaves_what_it_had(broker: Broker, make: Make, channel: Channel, queue: str) -> None:
    """The task's messages come again, without others, and the rest comes in later batches."""
    driver = make()
    start = driver.initialOffset()
    end = after(driver, start)
    one, _ = make().partitions(start, end)
    cut = channel.client.channel()
    cut.call("basic.qos", prefetch_count=4)
    cut.call("basic.consume", queue=queue, consumer_tag="cut", arguments={"x-lease": one.lease})  # type: ignore[attr-defined]
    wait_held(broker, queue, 96, 4)
    assert tasks(make, start, end) == [list(range(4)), list(range(4, 19))]
    assert cut.take("basic.cancel").consumer_tag == "cut"
