"""Methods with arbitrary bytes, lengths, types and values, while clients of another vhost work.

The attacker always gets an answer, if only the end of the connection. The other clients are not affected, and the log
has no errors.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.frames import method_frame
from tests.hostile_methods import methods
from tests.outcomes import Confirms
from tests.raw import Client, Closed, HungUp
from tests.router.making import rabbit_hash
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

MALLORY, VHOST = "mallory", "theirs"
ATTACKERS = 3
METHODS_AT_ONCE = 12
CLOSED = struct.pack(">HH", 10, 51)
CLOSING = struct.pack(">HH", 10, 50)
BATCH = 20


class Attacker(threading.Thread):
    """A thread that opens connections one after the other; each sends methods and a close, and must get an answer."""

    def __init__(self, broker: Broker, seed: int, until: float) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.seed = seed
        self.until = until
        self.connections = 0
        self.unanswered: list[int] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while time.monotonic() < self.until and not self.unanswered:
                self.connections += 1
                seed = self.seed + self.connections
                if not self.is_answered(random.Random(seed)):
                    self.unanswered.append(seed)
        except BaseException as error:
            self.error = error

    def is_answered(self, draw: random.Random) -> bool:
        with Client.connect(self.broker.address, user=MALLORY, password="m", vhost=VHOST) as client:
            with suppress(Closed):  # a method of another attacker may have declared it otherwise
                client.channel(1).call("queue.declare", queue="mine")
            client.channel(2)
            try:
                client.socket.sendall(methods(draw, draw.randrange(1, METHODS_AT_ONCE)))
                client.socket.sendall(method_frame("connection.close", code=200, text="bye"))
            except OSError:
                return True
            return receives(client.socket)


def receives(connection: socket.socket) -> bool:
    """Whether connection.close, its answer or the end of the stream arrives."""
    received = b""
    while CLOSED not in received and CLOSING not in received:
        try:
            more = connection.recv(65536)
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True
        if not more:
            return True
        received = received[-3:] + more
    return True


class Victim:
    """A client in another vhost: it must receive everything that it asks for, in order."""

    def __init__(self, client: Client) -> None:
        self.asking, self.publishing, self.consuming = (client.channel() for _ in range(3))
        self.queue = self.asking.call("queue.declare", exclusive=True).queue
        self.confirms = Confirms(self.publishing)
        self.consuming.call("basic.consume", queue=self.queue)
        self.rounds = 0

    def round(self) -> None:
        self.rounds += 1
        bodies = [b"%d.%d" % (self.rounds, number) for number in range(BATCH)]
        for body in bodies:
            self.confirms.publish(body, self.queue)
        self.confirms.wait()
        for body in bodies:
            delivery = self.consuming.take("basic.deliver")
            assert delivery.body == body
            self.consuming.send("basic.ack", delivery_tag=delivery.delivery_tag)
        self.asking.call("queue.bind", queue=self.queue, exchange="amq.topic", routing_key=f"k.{self.rounds}")
        assert self.asking.call("queue.unbind", queue=self.queue, exchange="amq.topic", routing_key=f"k.{self.rounds}")
        assert self.asking.depth(self.queue) == 0


@contextmanager
def attacked(directory: Path) -> Iterator[Broker]:
    with Broker(directory, acceptors=2, shards=2) as broker:
        broker.call("vhost_add", name=VHOST)
        broker.call("user_add", name=MALLORY, password_hash=rabbit_hash("m"), tags=[])
        broker.call("permission_set", user=MALLORY, vhost=VHOST, configure=".*", write=".*", read=".*")
        yield broker


def course(directory: Path, seed: int, seconds: float) -> int:
    """Attack for some seconds; return the number of connections that attacked."""
    with attacked(directory) as broker, Client.connect(broker.address) as one, Client.connect(broker.address) as two:
        victims = [Victim(one), Victim(two)]
        pids = {process.pid for process in broker.processes()}
        until = time.monotonic() + seconds
        attackers = [Attacker(broker, seed + number * 1_000_000, until) for number in range(ATTACKERS)]
        for attacker in attackers:
            attacker.start()
        while any(attacker.is_alive() for attacker in attackers):
            for victim in victims:
                victim.round()
        for attacker in attackers:
            assert attacker.error is None or isinstance(attacker.error, HungUp), repr(attacker.error)
            assert not attacker.unanswered, f"nothing within {PATIENCE} s for seeds {attacker.unanswered}"
        assert {process.pid for process in broker.processes()} == pids
        bad = [line for line in broker.log.splitlines() if '"level":"error"' in line or '"level":"critical"' in line]
        assert not bad, bad[0][:3000]
        return sum(attacker.connections for attacker in attackers)


def test_ten_seconds(tmp_path: Path) -> None:
    assert course(tmp_path, 1, 10) > ATTACKERS


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_minutes(tmp_path: Path) -> None:
    assert course(tmp_path, 10**9, 600) > ATTACKERS
