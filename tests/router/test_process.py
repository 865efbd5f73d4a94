"""The real router process, as acceptors and shards see it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import zmq

from penstock.bus import pack, unpack
from penstock.memory import shared_counts
from penstock.memory.gauges import DEAD, READY, Gauges
from penstock.node import clock
from penstock.node.node import Node
from penstock.process.process import REFUSED_STATUS, record_parent, take_reason
from penstock.settings import Settings
from router.model.topology import Topology
from tests.router.making import completed
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
MILLISECONDS = int(PATIENCE * 1000)
BEGIN = """
import sys; from pathlib import Path; from router.process import main; main(Path(sys.argv[1]), 0, int(sys.argv[2]))
"""


class Running:
    """A router in a runtime directory of its own, with the sockets of a supervisor and of one acceptor."""

    def __init__(self, runtime: Path, data: Path) -> None:
        self.incarnation = 0
        epoch = time.time_ns() // 1000
        settings = Settings(acceptors=2, shards=2, data=data, max_queues=50, limits={"user_queues": 50})
        self.gauges_path = Path("/dev/shm") / f"penstock-test-{uuid4().hex}.gauges"
        self.gauges = Gauges.create(self.gauges_path, epoch=epoch, acceptors=2, shards=2, queues=50, pid=os.getpid())
        self.node = Node(epoch, runtime, self.gauges_path, "127.0.0.1", 0, settings, clock.ahead_us())
        record_parent(runtime)
        shared_counts.create(self.node.shared_counts, self.node.counting)
        self.node.store()
        self.context: zmq.Context[Any] = zmq.Context()
        self.context.setsockopt(zmq.LINGER, 0)
        self.context.setsockopt(zmq.RCVTIMEO, MILLISECONDS)
        self.reports = self.context.socket(zmq.PULL)
        self.reports.bind(self.node.process_reports)
        self.events = self.context.socket(zmq.PUB)
        self.events.bind(self.node.process_events)
        self.changes = self.context.socket(zmq.SUB)
        self.changes.subscribe(b"")
        self.changes.connect(self.node.router_changes)
        self.requests = self.context.socket(zmq.DEALER)
        self.requests.setsockopt(zmq.IDENTITY, b"acceptor.0.1")
        self.requests.connect(self.node.router_requests)
        self.number = 0
        self.log = (runtime / "log").open("ab")
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        self.incarnation += 1
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEGIN, str(self.node.runtime), str(self.incarnation)],
            cwd=ROOT, stdin=subprocess.DEVNULL, stderr=self.log,
        )  # fmt: skip
        return self.process

    def wait_ready(self) -> None:
        assert unpack(self.reports.recv()) == ["ready", "router", 0, self.incarnation, self.process.pid]

    def read_log(self) -> str:
        return (self.node.runtime / "log").read_text()

    def send(self, operation: str, **arguments: Any) -> None:
        self.number += 1
        whole = arguments if operation == "snapshot" else completed(operation, arguments)
        self.requests.send(pack([self.number, operation, whole]))

    def receive(self) -> tuple[int, Any, Any]:
        """Return version, result and error of the next reply, which has to be to the last request."""
        number, version, result, error = unpack(self.requests.recv())
        assert number == self.number
        return version, result, error

    def ask(self, operation: str, **arguments: Any) -> tuple[int, Any, Any]:
        self.send(operation, **arguments)
        return self.receive()

    def next_change(self) -> tuple[int, list[Any]]:
        version, changes = unpack(self.changes.recv())
        return version, changes

    def change_to(self, version: int) -> tuple[int, list[Any]]:
        """Return the change that led to a version; a new subscriber may receive an earlier one twice."""
        while (published := self.next_change())[0] < version:
            pass
        return published

    def snapshot(self) -> Topology:
        version, result, error = self.ask("snapshot", have=-1)
        assert error is None
        return Topology(version, result["changes"])

    def acceptor_is(self, index: int, state: int, incarnation: int) -> None:
        self.gauges.process_write(
            "acceptor", index, pid=1, incarnation=incarnation, state=state, started_us=1, restarts=0
        )

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self.context.destroy()
        self.log.close()
        self.gauges.close()
        self.gauges_path.unlink()


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A directory with a short path, since sockets are in it (unix(7): 107 bytes)."""
    with tempfile.TemporaryDirectory(prefix="pstk-", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def running(runtime: Path, tmp_path: Path) -> Iterator[Running]:
    running = Running(runtime, tmp_path / "data")
    try:
        running.wait_ready()
        assert running.next_change()[0] == 1, "published before there was a subscriber, and heard all the same"
        yield running
    finally:
        running.close()


def test_serves_and_ends_in_order(running: Running) -> None:
    assert running.gauges.topology_version() == 1
    assert running.snapshot().has_vhost("/")
    version, made, error = running.ask("queue_declare", name="q", durable=True)
    assert (version, made["name"], error) == (2, "q", None)
    assert running.ask("queue_lookup", name="no") == (2, None, [404, "no queue 'no' in vhost '/'"])
    assert running.stop() == 0
    assert "Traceback" not in running.read_log()


def test_published_and_in_the_gauges_before_the_reply(running: Running) -> None:
    """After a reply, every acceptor knows of the change, or knows that it must catch up."""
    replica = running.snapshot()
    for number in range(50):
        version, _, _ = running.ask("queue_declare", name=f"q{number}")
        assert running.gauges.topology_version() >= version
    while replica.version < version:
        published, changes = running.next_change()
        if published > replica.version:  # a new subscriber may receive the same change twice
            assert published == replica.version + 1
            for change in changes:
                replica.apply(change)
            replica.version = published
    assert len(replica.queues()) == 50


def test_many_requests_share_a_turn(running: Running) -> None:
    """Each makes at most one version, and all are answered in order."""
    for number in range(40):
        running.send("queue_declare", name=f"q{number}", durable=True)
    answers = [unpack(running.requests.recv()) for _ in range(40)]
    assert [answer[0] for answer in answers] == list(range(1, 41))
    assert len({answer[2]["slot"] for answer in answers}) == 40
    versions = [answer[1] for answer in answers]
    assert versions == sorted(versions) and versions[-1] <= 41


def test_a_late_subscriber_hears_of_the_last_change(running: Running) -> None:
    """Otherwise a change published while a subscriber connects would go unnoticed until the next change."""
    version, _, _ = running.ask("queue_declare", name="q")
    late = running.context.socket(zmq.SUB)
    late.subscribe(b"")
    late.connect(running.node.router_changes)
    assert unpack(late.recv())[0] == version


def test_killed_and_started_again_in_the_same_epoch(running: Running) -> None:
    """Transient, exclusive and durable records are all there with their slots and ids, and versions go on."""
    for name, more in (("transient", {}), ("durable", {"durable": True}), ("mine", {"exclusive": True})):
        running.ask("queue_declare", name=name, **more)
        running.ask("queue_bind", queue=name, source="amq.topic", key="#")
    running.ask("exchange_declare", name="x", auto_delete=True)
    before = running.snapshot()
    running.kill()
    running.start()
    running.wait_ready()
    assert running.gauges.topology_version() == before.version
    after = running.snapshot()
    assert after.version == before.version
    assert sorted(map(repr, after.changes())) == sorted(map(repr, before.changes()))
    _, made, _ = running.ask("queue_declare", name="new")
    assert made["queue_id"] == 4
    assert made["slot"] not in [queue.slot for queue in after.queues()]


def test_the_next_incarnation_says_what_the_last_one_published(running: Running) -> None:
    """A follower that may have missed stored changes gets those turns, not the whole topology."""
    published = []
    for number in range(20):
        version, _, _ = running.ask("exchange_declare", name=f"x{number}", durable=True)
        published.append(running.change_to(version))
    running.kill()
    running.start()
    running.wait_ready()
    version = running.snapshot().version
    assert running.ask("snapshot", have=version)[1] == {"turns": []}
    for missed in 1, 16:
        turns = running.ask("snapshot", have=version - missed)[1]["turns"]
        assert [tuple(unpack(turn)) for turn in turns] == published[-missed:]
    assert "changes" in running.ask("snapshot", have=version - 17)[1]
    running.ask("exchange_declare", name="more")
    assert len(running.ask("snapshot", have=version - 16)[1]["turns"]) == 17


def test_killed_under_load(running: Running) -> None:
    """Answered requests are stored; unanswered ones may be repeated."""
    for number in range(200):
        running.send("exchange_declare", name=f"x{number}", durable=number % 2 == 0)
    running.requests.poll(MILLISECONDS)
    running.kill()
    answered = []
    while running.requests.poll(0):
        number, _, _, error = unpack(running.requests.recv())
        assert error is None
        answered.append(number - 1)
    assert answered
    running.start()
    running.wait_ready()
    running.requests.close()  # drops the requests it has kept, and answers not read yet
    running.requests = running.context.socket(zmq.DEALER)
    running.requests.setsockopt(zmq.IDENTITY, b"acceptor.0.2")
    running.requests.connect(running.node.router_requests)
    topology = running.snapshot()
    assert all(topology.exchange("/", f"x{number}") for number in answered)


def test_next_epoch_has_what_is_durable(running: Running, tmp_path: Path) -> None:
    running.ask("queue_declare", name="durable", durable=True, arguments={"x-max-length": 5, "odd": "\udcff"})
    running.ask("queue_declare", name="transient")
    running.ask("queue_bind", queue="durable", source="amq.topic", key="\udcff.*")
    running.ask("queue_bind", queue="transient", source="amq.topic", key="#")
    assert running.stop() == 0
    with tempfile.TemporaryDirectory(prefix="pstk-", dir="/tmp") as another:
        again = Running(Path(another), tmp_path / "data")
        try:
            again.wait_ready()
            topology = again.snapshot()
            assert [queue.name for queue in topology.queues()] == ["durable"]
            assert [queue.name for queue in topology.route("/", "amq.topic", "\udcff.b")] == ["durable"]
            _, made, _ = again.ask("queue_declare", name="transient")
            assert made["queue_id"] == 3
        finally:
            again.close()


def test_exclusive_queues_of_a_dead_acceptor(running: Running) -> None:
    """The death is reported by an event, or found in the gauges by a router that was down when it happened."""
    running.acceptor_is(0, READY, 1)
    running.acceptor_is(1, READY, 3)
    for connection in ("0.1.1", "1.2.1", "1.3.1"):
        running.ask("queue_declare", name=connection, exclusive=True, connection=connection)
    running.acceptor_is(0, DEAD, 1)
    wait_for(lambda: queue_names(running) == ["1.3.1"], what="the queues of the dead to go")
    running.kill()
    running.acceptor_is(1, READY, 4)
    running.start()
    running.wait_ready()
    assert queue_names(running) == []


def queue_names(running: Running) -> list[str]:
    return [queue.name for queue in running.snapshot().queues()]


def test_malformed_requests(running: Running) -> None:
    running.requests.send(b"\xc1")
    running.requests.send_multipart([b"one", b"two"])
    running.requests.send(pack([1, 2, 3, 4]))
    running.number = 77
    running.requests.send(pack([77, "no_such", {}]))
    assert running.receive() == (1, None, [541, "malformed request: no operation 'no_such'"])
    assert running.ask("queue_lookup")[2] == [541, "malformed request: name is missing"]
    assert running.ask("queue_declare", name="q")[2] is None
    assert running.read_log().count("unreadable request") == 3


def test_a_store_that_cannot_be_used(runtime: Path, tmp_path: Path) -> None:
    """The cause is reported to the supervisor, and the process ends."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "topology.sqlite").write_bytes(b"no database" * 1000)
    running = Running(runtime, tmp_path / "data")
    try:
        assert running.process.wait(PATIENCE) == REFUSED_STATUS
        assert "not a database" in take_reason(runtime, "router", 0) and "Traceback" not in running.read_log()
    finally:
        running.close()
