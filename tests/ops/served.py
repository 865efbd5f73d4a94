"""A node within this process: a claimed data directory, gauges, and a router that answers on its control socket.

The node has no shards and no acceptors: a test writes their gauges, shards start and end as soon as the router asks
for it, and every move of a queue succeeds at once.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from structlog.testing import capture_logs

from ops.claim import Pointer, claimed
from ops.runtime import runtime_directory
from penstock.control import control
from penstock.control.control_server import ControlServer
from penstock.limits.watermarks import FlowDefaults
from penstock.memory.gauges import READY, UNSTARTED, Gauges
from penstock.node import clock
from penstock.node.node import Node, Role
from penstock.settings import Settings
from router.authority.authority import Authority
from router.authority.operations import perform
from router.core import Answered, RouterCore
from router.model.records import COPYING, PRECOPYING, STOPPING
from router.storage.recovery import recover
from router.storage.store import Store
from tests.router.making import completed

T = TypeVar("T")

QUEUES = 50
EMPTY = {"count": 0, "nbytes": 0, "checksum": 0, "stop": [], "reason": ""}


class Loop:
    """A loop in a thread of its own, which does one piece of work after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], T]) -> T:
        """Do work on the loop, and return its result."""

        async def done() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result()

    @contextmanager
    def answering(self, path: Path, answer: Callable[[str, dict[str, Any], Answered], None]) -> Iterator[None]:
        """Serve a control socket on the loop."""
        server = ControlServer(path, answer)
        asyncio.run_coroutine_threadsafe(server.start(), self._loop).result()
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(server.close(), self._loop).result()

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class ServedNode:
    """The node, with a real router; all its processes are ready, with the pid of this process."""

    def __init__(self, node: Node, gauges: Gauges, loop: Loop) -> None:
        self.node, self.gauges, self.data = node, gauges, node.settings.data
        self.commands: list[str] = []
        """The commands that were sent to the node."""
        self.lost: set[str] = set()
        """The queues that their shards have lost."""
        self._loop = loop
        self.core = loop.do(self._make_core)
        self.set_process("acceptor", 0, READY)
        for index in node.shards:
            self.set_process("shard", index, READY)

    def set_process(self, role: Role, index: int, state: int) -> None:
        """Set the state of a process; its pid is that of this process, or 0 if it is unstarted."""
        pid = 0 if state == UNSTARTED else os.getpid()
        self.gauges.process_write(role, index, pid=pid, incarnation=1, state=state, started_us=1, restarts=0)

    def _make_core(self) -> RouterCore:
        """Make the router's core, in the loop's thread: a database connection belongs to the thread that made it."""
        store = Store(self.data / "topology.sqlite", 1)
        stored, shards = store.load(), self.node.shards
        ledger = recover(stored, shards, self.node.shard_places, QUEUES, FlowDefaults())
        core = RouterCore(Authority(ledger, shards, FlowDefaults(), stored.name_key, clock.own()), store)
        core.authority.moves.incarnation_of = lambda shard: 1
        placing = core.authority.placing
        placing.places = self.node.shard_places
        placing.state_of = lambda shard: self.gauges.process_read("shard", shard).state
        placing.ask = lambda shard, there: self.set_process("shard", shard, READY if there else UNSTARTED)
        core.seed()
        core.finish_turn()
        return core

    def ask(self, operation: str, **arguments: Any) -> Any:
        """Return the result of an operation, as acceptors and shards ask for it."""
        return self._loop.do(lambda: self._perform(operation, arguments))

    def declare(self, name: str, shard: int, **fields: int) -> int:
        """Declare a durable queue on that shard, and return its id. `fields` are figures of its gauges."""
        self.ask("queue_place", vhost="/", name=name, shard=shard)
        result = self.ask("queue_declare", name=name, durable=True)
        self.gauges.queue_open(result["slot"], result["queue_id"], "/", name, time.time_ns() // 1000)
        write(self.gauges, result["slot"], **fields)
        return int(result["queue_id"])

    def homes(self) -> dict[str, int]:
        """Return the shard of each queue."""
        return self._loop.do(
            lambda: {queue.name: queue.shard for queue in self.core.authority.topology.queues()},
        )

    @property
    def placement_version(self) -> int:
        """The version of the placement."""
        return self._loop.do(lambda: self.core.authority.topology.placement_version)

    def command(self, command: str, **arguments: Any) -> Any:
        """Return the result of a command, as over the socket."""
        return control.call(self.node.control, command, arguments)

    def answer(self, command: str, arguments: dict[str, Any], answered: Answered) -> None:
        """Carry out a command as the router's process does."""
        self.commands.append(command)
        self.core.command(command, arguments, answered)
        self._finish_turns()
        self.core.authority.placing.advance()
        self._finish_turns()

    def answer_of_shard(self, shard: int, question: str, arguments: dict[str, Any], answered: Answered) -> None:
        """Answer `queues` as that shard does: the ids of its queues, except those that it has lost."""
        assert (question, arguments) == ("queues", {})
        queues = self.core.authority.topology.queues()
        answered({"result": [each.queue_id for each in queues if each.shard == shard and each.name not in self.lost]})

    def _finish_turns(self) -> None:
        """End the turn, and further ones until no queue moves."""
        moves = self.core.authority.moves
        while True:
            for answered, message in self.core.finish_turn().answers:
                answered(message)
            if not moves.topology.moves:
                return
            for move in list(moves.topology.moves.values()):
                homes = {
                    PRECOPYING: ("precopied", move.source),
                    STOPPING: ("written", move.source),
                    COPYING: ("kept", move.target),
                }
                state, shard = homes.get(move.phase, ("reattached", move.home))
                facts = {
                    "queue_id": move.queue_id,
                    "epoch": move.epoch,
                    "shard": shard,
                    "incarnation": 1,
                    "state": state,
                }
                perform(self.core.authority, "move_report", {**facts, **EMPTY}, "test")

    def _perform(self, operation: str, arguments: dict[str, Any]) -> Any:
        outcome = perform(self.core.authority, operation, completed(operation, arguments), "test")
        self._finish_turns()
        assert outcome.error is None, outcome
        return outcome.result


def write(gauges: Gauges, slot: int, **fields: int) -> None:
    """Write the figures of a queue; omitted ones are 0."""
    names = (
        "ready", "unacked", "ready_bytes", "unacked_bytes", "published", "delivered", "acked", "redelivered", "dropped",
        "consumers", "flow_epoch", "saturated", "saturated_since_us", "stop_count", "resume_count", "stop_bytes",
        "resume_bytes", "aside", "unburied", "unburied_bytes", "published_bytes", "delivered_bytes", "whole_bytes",
    )  # fmt: skip
    assert set(fields) <= set(names)
    gauges.queue_write(slot, *(fields.get(name, 0) for name in names))


@contextmanager
def served(data: Path, shards: int = 2, **settings: Any) -> Iterator[ServedNode]:
    """Run a node on a data directory, with one acceptor and a place for one more shard."""
    chosen = Settings.from_resolved(
        {"port": 5672, "data": data, "acceptors": 1, "shards": shards, "spare_shards": 1} | settings
    )
    with claimed(data), runtime_directory() as runtime, capture_logs():  # its log is not the output of a command
        node = Node(1, runtime, runtime / "gauges", "127.0.0.1", 5672, chosen, clock.ahead_us())
        node.store()
        sizes = {"acceptors": 1, "shards": node.shard_places, "queues": QUEUES}
        loop = Loop()
        try:
            with Gauges.create(node.gauges, epoch=1, pid=os.getpid(), **sizes) as gauges:
                Pointer(os.getpid(), runtime, node.gauges).store(data)
                found = ServedNode(node, gauges, loop)
                try:
                    with ExitStack() as stack:
                        stack.enter_context(loop.answering(node.control, found.answer))
                        for index in node.shards:
                            path = node.control_of("shard", index, 1)
                            stack.enter_context(loop.answering(path, partial(found.answer_of_shard, index)))
                        yield found
                finally:
                    loop.do(found.core.store.close)
        finally:
            loop.close()
