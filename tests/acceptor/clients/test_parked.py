"""Items of a channel's inbox: their size and advance, and the methods that must not overtake others."""

from __future__ import annotations

from typing import Any

import pytest

from acceptor.clients.parked import (
    ITEM_BYTES,
    OVERTAKES,
    QUEUE_METHODS,
    ParkedMethod,
    ParkedRun,
    ParkedSettlements,
    means,
)
from penstock.amqp.scan_cy import Scanner, SettleRun
from penstock.amqp.spec import BY_NAME
from penstock.batch.batch_cy import Batch, BatchBuilder
from tests.frames import method_frame, method_payload

ADDRESS = b"\x00\x01q"


def batch(count: int) -> Batch:
    builder = BatchBuilder()
    for number in range(count):
        builder.add(ADDRESS, b"header", b"%d" % number, 0)
    return builder.finish()


def acks(count: int) -> SettleRun:
    """Return the run that a scanner makes of `count` acks."""
    frames = bytearray(b"".join(method_frame("basic.ack", 1, delivery_tag=tag) for tag in range(1, count + 1)))
    events: list[Any] = []
    Scanner(4096, 1).scan(frames, 0, len(frames), events)
    (run,) = events
    assert isinstance(run, SettleRun)
    return run


def parked(name: str, **arguments: Any) -> ParkedMethod:
    method = BY_NAME[name.replace(".", "_").replace("-", "_")]
    queue = arguments.get("queue", "") if method.name in QUEUE_METHODS else ""
    return ParkedMethod(method, method_payload(name, **arguments), queue)


@pytest.mark.parametrize(("tag", "after"), [(5, 8), (0, 0)])
def test_a_run_advances_its_first_message_and_its_confirm_tag_if_it_has_one(tag: int, after: int) -> None:
    run = ParkedRun(ADDRESS, False, batch(4), 0, 4, tag)
    size = run.nbytes
    run.advance(3)
    assert (run.first, run.count, run.tag) == (3, 1, after)
    assert run.batch.record(run.first)[2] == b"3"
    assert run.nbytes == size  # the batch is kept whole


def test_an_item_counts_all_the_memory_that_it_keeps() -> None:
    content = batch(3)
    run = ParkedRun(ADDRESS, False, content, 2, 1, 0)
    assert run.nbytes == len(content.entries) + len(content.contents) + ITEM_BYTES
    method = parked("queue.declare", queue="name")
    assert method.nbytes == len(method.payload) + len("name") + ITEM_BYTES
    run_of_acks = acks(100)
    assert ParkedSettlements(run_of_acks).nbytes == ITEM_BYTES + len(run_of_acks.rows) > ITEM_BYTES + 100


def test_a_method_is_kept_encoded_and_settlements_as_the_run_that_they_came_in() -> None:
    method = parked("queue.declare", queue="q", arguments={"x-max-length": 3}, durable=True)
    arguments = method.arguments
    assert (arguments["queue"], arguments["arguments"], arguments["durable"]) == ("q", {"x-max-length": 3}, True)
    run = acks(1)
    settlements = ParkedSettlements(run)
    assert settlements.arguments == {"run": run} and settlements.method is BY_NAME["basic_ack"]


@pytest.mark.parametrize(
    ("name", "asked", "behind", "depends"),
    [
        ("basic.consume", "q", parked("queue.declare", queue="q"), True),
        ("basic.get", "q", parked("queue.purge", queue="q"), True),
        ("basic.get", "q", parked("queue.delete", queue="other"), False),
        ("basic.get", "", parked("queue.delete", queue="other"), True),
        ("basic.consume", "q", parked("queue.declare", queue=""), True),
        ("basic.consume", "q", parked("queue.bind", queue="q"), False),
        ("basic.consume", "q", parked("basic.consume", queue="q"), False),
        ("basic.cancel", None, parked("basic.consume", queue="q"), True),
        ("basic.qos", None, parked("basic.consume", queue="q"), True),
        ("basic.cancel", None, parked("queue.declare", queue="q"), False),
        ("channel.close", None, parked("basic.consume", queue="q"), False),
    ],
)
def test_a_method_depends_on_a_parked_one_for_its_queue_or_its_consumer(
    name: str, asked: str | None, behind: ParkedMethod, depends: bool
) -> None:
    method = BY_NAME[name.replace(".", "_")]
    assert means(method, {} if asked is None else {"queue": asked}, behind) is depends


def test_methods_that_make_publishes_or_queues_what_they_are_never_overtake() -> None:
    classes = {"exchange", "queue", "tx", "confirm"}
    assert not [method.amqp_name for method in OVERTAKES if method.name.partition("_")[0] in classes]
    assert BY_NAME["basic_publish"] not in OVERTAKES
    assert set(QUEUE_METHODS) <= set(BY_NAME)
