"""Telemetry of a node, compared with its clients' work; the rows that survive when processes are killed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pika
import pytest

from penstock.telemetry.sweep import sweep
from tests.broker import Broker
from tests.outcomes import Confirms, bodies
from tests.penstock.telemetry.reading import check_none_is_missing, rows, visible
from tests.raw import Client, Closed, HungUp
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker

QUICK = ("telemetry.frame_seconds=0.1", "telemetry.file_seconds=0.5", "telemetry.node=here")
MARKS = {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}
PRODUCERS, MESSAGES, BODY = 4, 300, b"x" * 50


def publish(url: str, queue: str) -> None:
    """Publish with confirms, as fast as the broker lets it."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(MESSAGES):
            channel.basic_publish("", queue, BODY)


def publish_at_once(address: tuple[str, int], queue: str) -> None:
    """Publish all messages without heeding the broker; leave once all are confirmed."""
    with Client.connect(address) as client:
        channel = client.channel()
        channel.call("confirm.select")
        for _ in range(MESSAGES):
            channel.publish(BODY, queue)
        tags = 0
        while tags < MESSAGES:
            tags = max(tags, channel.take("basic.ack", timeout=3 * PATIENCE).delivery_tag)


def consume(url: str, queue: str, count: int) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        for number, (method, _, _) in enumerate(channel.consume(queue), 1):
            assert method is not None
            channel.basic_ack(method.delivery_tag)
            if number == count:
                break


def unfinished(root: Path) -> list[Path]:
    return [path for path in root.rglob(".*") if path.is_file()]


def written(root: Path) -> list[Path]:
    """Return the unfinished files that are not empty."""
    with suppress(FileNotFoundError):  # a file was finished meanwhile
        return [path for path in unfinished(root) if path.stat().st_size]
    return []


def finish(root: Path) -> None:
    """Finish files as the next start does: a disk may be too slow for the end of a process."""
    sweep(root, "here", 2**40)
    assert not unfinished(root)


def all_is_written(root: Path, queues: Sequence[str]) -> bool:
    """Whether the files have the last rows to come: queues empty again, the ends of connections and of stops.

    A process that ends waits half a second for a slow disk; rows not written by then are lost.
    """
    at_last = {row["queue"]: row for row in rows(root, "depth") if row["queue"] in queues}
    acked = Counter[str]()
    for row in rows(root, "depth"):
        acked[row["queue"]] += row["n_acked"]
    events = Counter(row["event"] for row in rows(root, "connection"))
    actions = Counter(row["action"] for row in rows(root, "flow"))
    return (
        all(acked[queue] >= PRODUCERS * MESSAGES for queue in queues)
        and not any(row["ready"] or row["unacked"] for row in at_last.values())
        and events["close"] == events["open"] == 2 * PRODUCERS + 1 + len(queues)
        and actions["stop"] == actions["resume"]
    )


def test_what_is_written_down_is_what_happened(tmp_path: Path) -> None:
    queues, root = ("one", "two"), tmp_path / "data" / "telemetry"
    with Broker(tmp_path, *QUICK, acceptors=2, shards=2) as broker:
        url = broker.address.url
        with Client.connect(broker.address) as client:
            for queue in queues:
                client.channel().call("queue.declare", queue=queue, arguments=MARKS)
        with ThreadPoolExecutor(2 * PRODUCERS + 2) as threads:
            work = [threads.submit(publish, url, queue) for queue in queues for _ in range(PRODUCERS - 1)]
            work += [threads.submit(publish_at_once, broker.address, queue) for queue in queues]
            wait_for(lambda: len(broker.held()) == len(work), 3 * PATIENCE, "everybody held")
            work += [threads.submit(consume, url, queue, PRODUCERS * MESSAGES) for queue in queues]
            for each in work:
                each.result()
        wait_for(lambda: all_is_written(root, queues), what="all of it in files")
    finish(root)
    found = {table: rows(root, table) for table in ("depth", "flow", "shard", "connection", "placement")}
    for table in found.values():
        check_none_is_missing(table)

    total = PRODUCERS * MESSAGES
    for queue in queues:
        of_it = [row for row in found["depth"] if row["queue"] == queue]
        for column in ("n_published", "n_acked"):
            assert sum(row[column] for row in of_it) == total
        assert sum(row["n_delivered"] - row["n_redelivered"] for row in of_it) == total
        assert sum(row["published_bytes"] for row in of_it) == total * len(BODY)
        assert of_it[-1]["ready"] == of_it[-1]["unacked"] == 0
        assert {(row["stop_count"], row["resume_count"]) for row in of_it} == {(20, 10)}
        # Consecutive rows leave no gap and do not overlap.
        for before, after in pairwise(of_it):
            assert after["ts"] - before["ts"] == pytest.approx(1000 * after["interval_ms"], abs=1000)
        (shard,) = {row["shard"] for row in of_it}
        published = sum(row["msgs_in"] for row in found["shard"] if row["shard"] == shard)
        assert 0 < published <= total * len(queues)
    assert {row["shard"] for row in found["shard"]} == {0, 1}

    episodes = [row for row in found["flow"] if row["action"] == "resume"]
    stops = Counter((row["connection"], row["channel"]) for row in found["flow"] if row["action"] == "stop")
    assert stops == Counter((row["connection"], row["channel"]) for row in episodes)
    assert {row["queue"] for row in episodes} == set(queues)
    assert {row["cause"] for row in episodes if row["queue"]} <= {"count", "pace"}
    assert {row["product"] for row in episodes} == {"Pika Python Client Library", "penstock tests"}
    assert any(row["parked"] for row in episodes)

    connections = Counter((row["event"], row["product"]) for row in found["connection"])
    assert connections["open", "Pika Python Client Library"] == len(queues) * PRODUCERS
    assert connections["open", "Pika Python Client Library"] == connections["close", "Pika Python Client Library"]
    assert connections["open", "penstock tests"] == connections["close", "penstock tests"] == len(queues) + 1


def test_a_queue_that_moves_is_counted_once(tmp_path: Path) -> None:
    moves = 3
    with Broker(tmp_path, *QUICK, shards=2) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="q")
        confirms = Confirms(channel)
        homes = [next(each["shard"] for each in broker.call("placement", vhost="/")["queues"] if each["name"] == "q")]
        for number in range(moves):
            for _ in range(MESSAGES):
                confirms.publish(BODY, "q", delivery_mode=1 + number % 2)
            confirms.wait()
            homes.append(1 - homes[-1])
            arguments = {"name": "q", "shard": homes[-1], "placement_version": None, "plan": f"plan {number}"}
            assert broker.call("queue_move", vhost="/", **arguments)["result"] == "moved"
        assert len(bodies(channel, "q")) == moves * MESSAGES
        root = tmp_path / "data" / "telemetry"
        wait_for(
            lambda: (
                len(rows(root, "placement")) == moves
                and sum(row["n_acked"] for row in rows(root, "depth")) == moves * MESSAGES
            ),
            what="all of it in files",
        )
    finish(root)
    placement = rows(root, "placement")
    assert [(row["from_shard"], row["to_shard"]) for row in placement] == list(pairwise(homes))
    assert [(row["plan"], row["messages"]) for row in placement] == [
        (f"plan {number}", (number + 1) * MESSAGES) for number in range(moves)
    ]
    depth = rows(root, "depth")
    assert sum(row["n_published"] for row in depth) == moves * MESSAGES
    assert sum(row["published_bytes"] for row in depth) == moves * MESSAGES * len(BODY)
    assert sum(row["n_acked"] for row in depth) == moves * MESSAGES
    assert depth[-1]["shard"] == homes[-1]
    for table in (placement, depth):
        check_none_is_missing(table)


def test_processes_that_are_killed_cost_their_last_rows_only(tmp_path: Path) -> None:
    """The console and an acceptor are killed at work: all files stay readable, and later rows are there."""
    root = tmp_path / "data" / "telemetry"
    tables = {"depth", "shard", "connection"}
    done = threading.Event()
    settings = ("telemetry.frame_seconds=0.1", "telemetry.file_seconds=3600", "telemetry.node=here")
    with Broker(tmp_path, *settings) as broker, ThreadPoolExecutor() as threads:

        def come_and_go() -> None:
            """Connect and leave continually; a client of a killed acceptor leaves silently."""
            while not done.wait(0.02):
                with suppress(OSError, AssertionError, Closed, HungUp), Client.connect(broker.address) as visitor:
                    visitor.channel().call("queue.declare", queue="q")
                    visitor.channel().publish(BODY, "q")

        going = threads.submit(come_and_go)
        try:
            wait_for(lambda: {path.parts[-5] for path in written(root)} >= tables)
            assert not any(visible(root, table) for table in tables)
            for role in ("acceptor", "console"):
                pid = broker.kill(role)
                broker.wait_replaced(role, pid)
            wait_for(lambda: all(visible(root, table) for table in tables), what="files of the dead")
            wait_for(lambda: len([path for path in written(root) if ".0.2-" in path.name]) >= 3, what="new ones")
        finally:
            done.set()
        going.result()
    finish(root)
    assert {row["writer"] for row in rows(root, "shard")} == {"console.0.1", "console.0.2"}
    assert {row["writer"] for row in rows(root, "connection")} == {"acceptor.0.1", "acceptor.0.2"}
    for table in tables:
        check_none_is_missing(rows(root, table))  # up to the last row written


def test_where_it_is_switched_off_nothing_is_written(tmp_path: Path) -> None:
    with Broker(tmp_path, "telemetry.enabled=false") as broker:
        with Client.connect(broker.address) as client:
            client.channel().call("queue.declare", queue="q")
        assert not broker.children("console")
        assert broker.children("acceptor")
    assert not (tmp_path / "data" / "telemetry").exists()


def test_a_directory_that_cannot_be_written_costs_telemetry_only(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    with (
        Broker(tmp_path, *QUICK, f"telemetry.directory={elsewhere}") as broker,
        Client.connect(broker.address) as client,
    ):
        channel = client.channel()
        channel.call("queue.declare", queue="q")
        channel.publish(BODY, "q")
        wait_for(lambda: "telemetry cannot be written" in broker.log, what="a word of it")
        wait_for(lambda: channel.depth("q") == 1, what="the message")
