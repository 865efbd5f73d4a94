"""A simulated node as a broker to connect to. Virtual time passes while something moves in it."""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from itertools import count
from typing import Any, Self

from tests.raw import CAPABILITIES, READ_SIZE
from tests.raw import Client as RawClient
from tests.simulator.engine import Engine
from tests.simulator.faults import Faults
from tests.simulator.joined.client import Client
from tests.simulator.plan import Mishap, Plan
from tests.simulator.truth import EXPECTED, Truth

QUIET_SECONDS = 0.1
"""The node is at rest if nothing waits after so much virtual time."""
MOST_ROUNDS = 1000


class SimulatedBroker:
    """A node of two acceptors and two shards without faults. The seed draws all delays."""

    def __init__(self, seed: int) -> None:
        self.engine = Engine(Plan(seed, 2, 2, True, (), (), (), (), (), 0.0))
        self.node = self.engine.node
        self.faults = Faults(self.engine, Truth(self.engine.plan), {})
        self.engine.begin()
        self.sockets: list[VirtualSocket] = []
        self.numbers = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.sockets:
            each.far.close()
        self.node.__exit__()

    def connect(self) -> RawClient:
        """Return a logged-in connection to one acceptor after the other."""
        client = SimulatedClient(self)
        client.login()
        return client

    def dial(self) -> socket.socket:
        """Return a socket that is connected to an acceptor."""
        number = next(self.numbers)
        virtual = VirtualSocket(Pipe(self.node, number % 2, {}, CAPABILITIES))
        self.node.clients[virtual.pipe.connection] = virtual.pipe
        self.engine.read_from(number, virtual.pipe)
        self.sockets.append(virtual)
        return virtual.near

    def kill(self, role: str, index: int) -> None:
        """Kill a shard or the router and start it again."""
        self.rest()
        self.faults.kill((role, index), arriving=0, written=True)
        self.rest()

    def rest(self) -> None:
        """Let time pass until nothing moves any more. AssertionError if that takes too long, or an error is logged."""
        engine = self.engine
        for _ in range(MOST_ROUNDS):
            for each in self.sockets:
                each.receive()
            engine.arm_all()
            ends = engine.timeline.now + QUIET_SECONDS
            while engine.step(ends):
                pass
            if not self.moves():
                break
        else:
            raise AssertionError("the node does not come to rest")
        self.sockets = [each for each in self.sockets if each.send()]
        errors = [line for line in self.node.logs if line["log_level"] in ("error", "critical")]
        errors = [line for line in errors if line["event"] not in EXPECTED[Mishap.KILL]]
        assert not errors, errors

    def moves(self) -> bool:
        """Whether anything waits to be moved or flushed, or a process is to start."""
        engine = self.engine
        waiting = any(activity.waits() for activity in (*engine.activities, *engine.reads.values()))
        return waiting or bool(engine.unflushed or engine.flushing) or not self.faults.supervisor.is_serving()


class Pipe(Client):
    """A client that keeps the bytes from its acceptor as they are."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.received = bytearray()

    def on_bytes(self, chunks: list[Any]) -> None:
        self.received += b"".join(chunks)


class VirtualSocket:
    """A pair of sockets. Bytes pass between the far one and a pipe in the node."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.near, self.far = socket.socketpair()
        self.far.setblocking(False)
        self.ended = False

    def receive(self) -> None:
        """Pass what the client has written to the pipe, or the end of the stream."""
        if self.ended or self.pipe.socket.closed:
            return
        with suppress(BlockingIOError):
            while data := self.far.recv(READ_SIZE):
                self.pipe.write(data)
            self.ended = True
            self.pipe.lose()

    def send(self) -> bool:
        """Pass what the acceptor has written to the client; return whether the connection still exists."""
        with suppress(BrokenPipeError):
            self.far.sendall(self.pipe.received)
        self.pipe.received.clear()
        if self.pipe.socket.closed:
            self.far.close()
        return not self.pipe.socket.closed


class SimulatedClient(RawClient):
    """A connection to a simulated broker: before it looks whether something has arrived, the node comes to rest."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self.broker = broker
        super().__init__(("simulated", 0))

    def _dial(self, address: tuple[str, int], receive_buffer: int) -> socket.socket:
        return self.broker.dial()

    def ready(self, events: int, seconds: float) -> int:
        if events & select.POLLIN:
            self.broker.rest()
        return super().ready(events, 0)
