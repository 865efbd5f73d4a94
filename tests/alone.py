"""One real process of a node; the test plays its supervisor and router."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import zmq

from acceptor.logins import known_passwords
from penstock.bus import pack, unpack
from penstock.memory import shared_counts, shared_rates
from penstock.memory.gauges import Gauges
from penstock.node import clock
from penstock.node.node import Node, Role
from penstock.process.process import record_parent
from penstock.settings import Settings
from router.core import SNAPSHOT
from tests.router.making import Asked
from tests.twins import ROOT
from tests.waiting import PATIENCE

BEGIN = """
import sys; from pathlib import Path; from {role}.process import main
main(Path(sys.argv[1]), 0, 1, *map(int, sys.argv[2:]))
"""


class Alone:
    """A child of the first incarnation, and the sockets where it expects a supervisor and a router.

    `router` has the topology; the child's requests wait until the test answers them.
    """

    def __init__(self, role: Role, data: Path, arguments: Sequence[int] = ()) -> None:
        self.role = role
        self.exits = ExitStack()
        # A short path, because sockets are made there (unix(7): 107 bytes).
        runtime = Path(self.exits.enter_context(tempfile.TemporaryDirectory(prefix="pstk-", dir="/tmp")))
        self.router = Asked(shards=1, queues=20, clock=clock.own())
        self.version = 1
        epoch = time.time_ns() // 1000
        settings = Settings(acceptors=1, shards=1, data=data, max_queues=20, spare_shards=0)
        gauges = Path("/dev/shm") / f"penstock-test-{uuid4().hex}.gauges"
        self.exits.callback(gauges.unlink, missing_ok=True)
        self.gauges = self.exits.enter_context(
            Gauges.create(gauges, epoch=epoch, acceptors=1, shards=1, queues=20, pid=os.getpid())
        )
        self.gauges.set_topology_version(self.version)
        self.node = Node(epoch, runtime, gauges, "127.0.0.1", 0, settings, clock.ahead_us())
        record_parent(runtime)
        known_passwords.create(self.node.known_passwords)
        shared_counts.create(self.node.shared_counts, self.node.counting)
        shared_counts.create(self.node.shared_hands, self.node.shard_places)
        shared_rates.create(self.node.shared_rates)
        self.node.store()
        context: zmq.Context[Any] = zmq.Context()
        self.exits.callback(context.destroy, linger=0)
        context.setsockopt(zmq.RCVTIMEO, int(PATIENCE * 1000))
        self.reports, self.events = context.socket(zmq.PULL), context.socket(zmq.XPUB)
        self.requests, self.changes = context.socket(zmq.ROUTER), context.socket(zmq.XPUB)
        self.reports.bind(self.node.process_reports)
        self.events.bind(self.node.process_events)
        self.requests.bind(self.node.router_requests)
        self.changes.bind(self.node.router_changes)
        self.log_file = runtime / "log"
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", BEGIN.format(role=role), str(runtime), *map(str, arguments)],
                cwd=ROOT, stdin=subprocess.DEVNULL, stderr=log, pass_fds=arguments,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.exits.close()

    @property
    def log(self) -> str:
        """The child's log so far."""
        return self.log_file.read_text()

    def answer(self) -> tuple[str, dict[str, Any]]:
        """Answer the child's next request to the router; return the operation and its arguments."""
        identity, frame = self.requests.recv_multipart()
        number, name, arguments = unpack(frame)
        if name == SNAPSHOT:
            result, error = {"changes": list(self.router.topology.changes())}, None
        else:
            outcome = self.router.ask(name, **arguments)
            result, error = outcome.result, outcome.error
            self.publish()
        self.requests.send_multipart([identity, pack([number, self.version, result, error])])
        return name, arguments

    def publish(self) -> None:
        """Publish the recorded changes of the topology."""
        steps, self.router.recorded = self.router.recorded, []
        if steps:
            self.version += 1
            self.changes.send(pack([self.version, [step.change for step in steps]]))
            self.gauges.set_topology_version(self.version)

    def wait_ready(self) -> None:
        """Send the child the topology; wait until it has reported ready and subscribed to all events."""
        self.router.recorded.clear()
        assert self.answer()[0] == SNAPSHOT
        assert unpack(self.reports.recv()) == ["ready", self.role, 0, 1, self.process.pid]
        assert self.events.recv() == self.changes.recv() == b"\x01"

    def announce(self, event: str, role: Role, index: int, incarnation: int) -> None:
        """Publish the supervisor's event about another process."""
        self.events.send(pack([event, role, index, incarnation, 0]))

    def stop(self) -> int:
        """Ask the child to end; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)
