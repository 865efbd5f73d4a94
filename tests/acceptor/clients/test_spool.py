"""Parked contents on disk: their places, their return in order, and when they are spooled."""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from acceptor.clients.parked import ParkedRun
from acceptor.clients.spool import Extent, Spool, SpooledRun
from tests.shard.steps import drain
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

KIB = 1024


def put(spool: Spool, data: bytes) -> Extent | None:
    return spool.put(memoryview(data[: len(data) // 2]), memoryview(data[len(data) // 2 :]))


def read(spool: Spool, extent: Extent) -> bytes:
    return spool.read(extent.start, extent.size)


@given(steps=st.lists(st.one_of(st.integers(1, 300), st.integers(-20, -1)), max_size=60))
def test_what_is_there_comes_back_and_room_is_used_again(steps: list[int]) -> None:
    """Each step stores that many bytes more, or frees those of an earlier step."""
    with TemporaryDirectory() as directory:
        spool = Spool(Path(directory), 0, 4000)
        there: list[tuple[bytes, Extent]] = []
        for number, step in enumerate(steps):
            if step > 0:
                data = bytes([number % 256]) * step
                if new := put(spool, data):
                    there.append((data, new))
                new = None
            elif there:
                del there[-step % len(there)]
            assert spool.held == sum(len(data) for data, _ in there)
            assert all(read(spool, each) == nbytes for nbytes, each in there)
        there.clear()
        assert (spool.held, put(spool, bytes(4000)) is not None) == (0, True)


def test_what_there_is_no_room_for_stays_in_memory(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 0, 100)
    kept = put(spool, bytes(60))
    assert kept and put(spool, bytes(60)) is None
    del kept
    assert put(spool, bytes(100))


def test_a_disk_that_takes_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "nowhere", 0, 1000)
    assert put(spool, bytes(10)) is None
    (tmp_path / "nowhere").mkdir()
    assert put(spool, bytes(10)) is not None


def spooling(node: Node, tmp_path: Path) -> Spool:
    spool = node.core(0).state.spool = Spool(tmp_path, 20 * KIB, 1 << 20)
    return spool


def flood(client: Client, count: int) -> list[bytes]:
    bodies = [b"%d" % number + bytes(KIB) for number in range(count)]
    for at in range(0, count, 5):
        for body in bodies[at : at + 5]:
            client.publish(1, body, routing_key="full")
        client.read()
        client.node.settle()
    return bodies


def test_parked_publishes_come_back_from_disk_in_order(tmp_path: Path) -> None:
    with Node(flow={"parking_bytes": 1 << 20}) as node:
        spool = spooling(node, tmp_path)
        node.declare("full", **{"qpid.flow_stop_count": 10, "qpid.flow_resume_count": 5})
        client, taker = open_channel(node), open_channel(node)
        bodies = flood(client, 200)
        runs = [item for item in client.connection.channels[1].inbox if isinstance(item, ParkedRun)]
        assert sum(isinstance(run, SpooledRun) for run in runs) > len(runs) // 2
        assert 150 * KIB < spool.held < 190 * KIB
        del runs
        taken: list[bytes] = []
        while len(taken) < len(bodies):
            taken += drain(taker, "full")
            node.settle()
        assert taken == bodies
        assert spool.held == 0 and node.core(0).holding.parking.parked_bytes == 0


def test_orphans_keep_what_is_on_disk_and_who_is_dropped_gives_it_back(tmp_path: Path) -> None:
    """Publishes of one read beyond all that a user may have parked are dropped with their connection."""
    with Node(flow={"parking_bytes": 1 << 20, "parked_memory": 20 * KIB, "spool_limit": 220 * KIB}) as node:
        spool = spooling(node, tmp_path)
        node.declare("full", **{"qpid.flow_stop_count": 10, "qpid.flow_resume_count": 5})
        first, second, taker = open_channel(node), open_channel(node), open_channel(node)
        bodies = flood(first, 90)
        first.lose()
        node.settle()
        assert spool.held > 50 * KIB
        held = spool.held
        for _ in range(100):
            second.publish(1, bytes(KIB), routing_key="full")
        second.read()
        node.settle()
        assert spool.held > held
        with capture_logs() as lines:
            second.lose()
        node.settle()
        assert [line["messages"] for line in lines if line["event"].startswith("parked publishes dropped")] == [100]
        assert spool.held == held
        taken: list[bytes] = []
        while len(taken) < len(bodies):
            taken += drain(taker, "full")
            node.settle()
        assert taken == bodies and spool.held == 0


def test_contents_that_cannot_be_read_end_the_connection_and_nothing_else(tmp_path: Path) -> None:
    """Without an error the client would take its publishes as done; it sends unconfirmed ones again."""
    with Node(flow={"parking_bytes": 1 << 20}) as node:
        spool = spooling(node, tmp_path)
        node.declare("full", **{"qpid.flow_stop_count": 10, "qpid.flow_resume_count": 5})
        producer, consumer = open_channel(node), open_channel(node)
        flood(producer, 60)
        assert spool.held and spool._file is not None
        os.ftruncate(spool._file, 0)
        with capture_logs() as lines:
            drain(consumer, "full")
        close = producer.take("connection.close")
        assert (close.code, close.text) == (541, "INTERNAL_ERROR - parked publishes cannot be read back")
        assert [line["event"] for line in lines if line["log_level"] == "error"] == ["parked contents are lost"]
        producer.send("connection.close-ok")
        assert (spool.held, drain(consumer, "full")) == (0, [])


def test_runs_of_single_small_messages_take_little_more_than_they_have(tmp_path: Path) -> None:
    """A client publishes to two full queues in turn, so each message is a run of its own."""
    count = 4000
    with Node(flow={"parking_bytes": 1 << 30}) as node:
        node.core(0).state.spool = Spool(tmp_path, 1 << 30, 0)
        for queue in ("full", "other"):
            node.declare(queue, **{"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 0})
        client = open_channel(node)
        for number in range(count):
            client.publish(1, b"%d" % number, routing_key=("full", "other")[number % 2])
        gc.collect()
        tracemalloc.start()
        while client.read(4096):
            pass
        gc.collect()
        took, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(client.connection.channels[1].inbox) > count - 10
        assert took < count * 700 < node.core(0).quotas.kept
        taker = open_channel(node)
        taken: dict[str, list[bytes]] = {"full": [], "other": []}
        while sum(map(len, taken.values())) < count:
            for queue, bodies in taken.items():
                bodies += drain(taker, queue)
        assert [list(map(int, bodies)) for bodies in taken.values()] == [[*range(0, count, 2)], [*range(1, count, 2)]]
