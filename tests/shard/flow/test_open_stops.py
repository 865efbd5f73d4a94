"""A stop goes on across a restart: of the shard, by the gauges; of the whole node, by a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.files.record_file import RecordFile, records_path
from shard.flow.flow import OPEN_MOST
from shard.flow.open_stops import OpenStops
from shard.queue.saturation import Stop
from tests.shard.steps import get, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

STOP, RESUME = 20, 10
MARKS: dict[str, Any] = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": RESUME}
SECONDS = 60.0


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(stores=True) as node:
        yield node


def stopped(node: Node) -> tuple[Client, Client, Stop]:
    """Return producer, consumer and stop of a queue that was stopped a while ago and is half-way to its resume mark."""
    node.declare("q", durable=True, **MARKS)
    producer, consumer = open_channel(node), open_channel(node)
    publish(producer, "q", *[b"m"] * (STOP + 4), delivery_mode=2)
    publish(producer, "q", b"waits", delivery_mode=2)
    state = node.state("q").saturation
    assert state.saturated and state.peak_count > STOP
    assert producer.connection.channels[1].held_by is not None
    for _ in range(7):
        assert get(consumer, "q")
    assert RESUME < node.state("q").depth <= STOP
    node.now += SECONDS
    return producer, consumer, Stop(state.since, state.peak_count, state.peak_bytes)


def resume(node: Node, producer: Client, consumer: Client, shard: int = 0) -> dict[str, Any]:
    """Drain the queue to its resume mark; return the one incident."""
    while node.state("q").depth > RESUME:
        assert get(consumer, "q")
    node.settle(1)
    assert producer.connection.channels[1].held_by is None
    (incident,) = node.shard(shard).flow.incidents
    return incident


def test_the_death_of_a_shard_does_not_end_a_stop(node: Node) -> None:
    producer, consumer, stop = stopped(node)
    epoch = node.state("q").saturation.epoch
    for _ in range(2):
        node.kill_shard(0)
        node.start_shard(0)
        node.settle()
        state = node.state("q").saturation
        assert (state.saturated, state.since, state.epoch) == (True, stop.since, epoch)
        assert producer.connection.channels[1].held_by is not None
    incident = resume(node, producer, consumer)
    assert incident["begun"] == stop.since / 1e6
    assert incident["ended"] - incident["begun"] >= SECONDS
    assert (incident["peak_count"], incident["cause"]) == (
        stop.peak_count, f"{stop.peak_count} of {STOP} messages",
    )  # fmt: skip
    (line, _) = [each for each in node.logs if each["event"] == "queue still stopped"]
    assert line["stopped_seconds"] >= SECONDS


def test_a_move_does_not_end_a_stop() -> None:
    """The stop goes on through moves and the death of the new home, until the queue is at its resume mark."""
    with Node(1, 2, stores=True) as node:
        producer, consumer, stop = stopped(node)
        for home in (1, 0, 1):
            results = node.move("q", home)
            node.settle(2)
            assert results[0]["result"] == "moved"
            assert Stop(*stop_of(node)) == stop
            assert producer.connection.channels[1].held_by is not None
            assert not node.shard(1 - home).flow.stopped
            (kept,) = node.shard(home).flow.open_stops(node.microseconds(), SECONDS)
            assert kept["since"] == stop.since
        node.kill_shard(1)
        node.start_shard(1)
        node.settle()
        assert Stop(*stop_of(node)) == stop
        incident = resume(node, producer, consumer, shard=1)
        assert (incident["begun"], incident["peak_count"]) == (stop.since / 1e6, stop.peak_count)
        assert incident["cause"] == f"{stop.peak_count} of {STOP} messages"
        assert not node.shard(0).flow.incidents
        assert [each["event"] for each in node.logs].count("queue stop") == 1


def test_who_was_left_behind_stays_so_where_it_moves() -> None:
    """Publishes to several queues go on without waiting for the lagging queue, and what arrives is no overshoot."""
    with Node(1, 2, stores=True) as node:
        stopped(node)
        node.state("q").exemption.lagging = True
        node.move("q", 1)
        node.settle(2)
        assert node.queue("q").shard == 1 and node.state("q").exemption.lagging


def stop_of(node: Node) -> tuple[int, int, int]:
    """Return begin and peaks of the queue's stop, checked against the gauges."""
    state, gauge = node.state("q").saturation, node.gauges.queue_read(node.queue("q").slot)
    assert gauge is not None and state.saturated and gauge.saturated
    assert (gauge.saturated_since_us, gauge.peak_count) == (state.since, state.peak_count)
    return state.since, state.peak_count, state.peak_bytes


def test_what_resumed_before_the_death_begins_anew(node: Node) -> None:
    producer, consumer, stop = stopped(node)
    resume(node, producer, consumer)
    node.kill_shard(0)
    node.start_shard(0)
    node.settle()
    assert not node.state("q").saturation.saturated
    publish(producer, "q", *[b"m"] * STOP, delivery_mode=2)
    state = node.state("q").saturation
    assert state.saturated and state.since > stop.since
    assert node.shard(0).flow.open_stops(node.microseconds(), 0)[0]["since"] == state.since


def test_the_next_run_of_the_node_goes_on_with_a_stop(node: Node) -> None:
    producer, consumer, stop = stopped(node)
    record, queue = node.queue("q"), node.state("q")
    (kept,) = node.shard(0).flow.open_stops(node.microseconds(), SECONDS)
    assert kept == {"queue_id": queue.id, "vhost": "/", "queue": "q", **stop._asdict()}
    assert node.shard(0).flow.open_stops(node.microseconds(), 2 * SECONDS) == []
    node.kill_shard(0)
    node.gauges.queue_close(record.slot)  # another run has no such queue in its gauges
    node.start_shard(0, earlier={queue.id: stop})
    node.settle()
    assert node.state("q").saturation.since == stop.since
    assert node.shard(0).flow.earlier == {}
    assert resume(node, producer, consumer)["begun"] == stop.since / 1e6


def test_of_many_stops_the_oldest_are_kept(node: Node) -> None:
    stopped(node)
    flow = node.shard(0).flow
    flow.stopped = dict.fromkeys(range(OPEN_MOST + 10), node.state("q"))
    assert len(flow.open_stops(node.microseconds(), 0)) == OPEN_MOST


def record(queue_id: int, name: str, since: int) -> dict[str, Any]:
    return {"queue_id": queue_id, "vhost": "/", "queue": name, "since": since, "peak_count": 21, "peak_bytes": 0}


def test_the_file_has_what_is_open(tmp_path: Path) -> None:
    file = OpenStops(tmp_path, 0)
    assert file.read() == {}
    file.keep([])
    assert not file.path.exists(), "there is nothing to say"
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    file.keep([record(1, "q", 5_000_001), record(2, name, 6_000_000)])
    assert OpenStops(tmp_path, 0).read() == {1: Stop(5_000_001, 21, 0), 2: Stop(6_000_000, 21, 0)}
    assert OpenStops(tmp_path, 1).read() == {}
    later = OpenStops(tmp_path, 0)
    later.read()
    later.keep([])
    assert OpenStops(tmp_path, 0).read() == {}


def test_what_ended_since_is_not_open(tmp_path: Path) -> None:
    """A killed node may leave a file that is a second old; an incident is written when the stop ends."""
    OpenStops(tmp_path, 0).keep([record(1, "q", 5_000_001), record(2, "r", 5_000_001)])
    over = {"kind": "queue", "vhost": "/", "queue": "q", "begun": 8.0, "ended": 9.0, "since_us": 5_000_001}
    circle = over | {"kind": "deadlock", "queue": "r"}
    RecordFile(records_path(tmp_path, "incidents", "shard", 0)).append([over, circle])
    assert OpenStops(tmp_path, 0).read() == {2: Stop(5_000_001, 21, 0)}


@pytest.mark.parametrize("content", [b"", b"[", b"5", b"[5]", b'[{"queue_id": 1}]'])
def test_a_file_that_cannot_be_read_costs_the_beginnings(tmp_path: Path, content: bytes) -> None:
    file = OpenStops(tmp_path, 0)
    file.keep([record(1, "q", 5)])
    file.path.write_bytes(content)
    damaged = OpenStops(tmp_path, 0)
    assert damaged.read() == {}
    damaged.keep([record(1, "q", 6)])
    assert OpenStops(tmp_path, 0).read() == {1: Stop(6, 21, 0)}


def test_a_directory_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "open_stops").touch()
    file = OpenStops(tmp_path, 0)
    file.keep([record(1, "q", 5)])
    (tmp_path / "open_stops").unlink()
    file.keep([record(1, "q", 5)])
    assert OpenStops(tmp_path, 0).read() == {1: Stop(5, 21, 0)}
