"""Whether one malicious client can exhaust a node's memory or hold other clients; a good client beside it is the
witness.

    python -m load.hostile returns

Each attack runs on a broker started for it, with small memory limits, while a good client makes 40 round trips a second
(publish, confirm, get). Printed are the peak private memory of each process, and how the good client fared. Exit status
1 if all processes together exceeded `memory.process_limit` by more than a fifth, or if the good client reached less
than 90 % of its rate without an attack, or was told that it is blocked.
"""

from __future__ import annotations

import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import uuid4

import psutil
import typer

from load.frames import (
    BASIC_CLASS,
    BASIC_CONSUME,
    BASIC_PUBLISH,
    BODY_FRAME,
    CONFIRM_SELECT,
    CONFIRM_SELECT_OK,
    HEADER_FRAME,
    QUEUE_DECLARE,
    publish,
)
from load.node import LocalNode
from load.probe import prepare
from load.processes import MIB, living
from load.target import Target
from load.wire import FRAME_END, FRAME_OVERHEAD, METHOD_FRAME, Method, Wire, method_frame, short_string, table
from penstock.process.node_memory import private_memory, shared_memory

BASIC_GET: Method = (60, 70)
BASIC_GET_OK = struct.pack("!HH", 60, 71)
BASIC_ACK = struct.pack("!HH", 60, 80)
BLOCKED = struct.pack("!HH", 10, 60)
BASIC_NACK: Method = (60, 120)
TX_SELECT: Method = (90, 10)
TX_COMMIT: Method = (90, 20)

LIMIT = 500 * MIB
OPTIONS = (
    "--acceptors",
    "1",
    "--shards",
    "1",
    "--set",
    f"memory.process_limit={LIMIT}",
    "--set",
    "memory_limit=100 MiB",
)
SLACK = 1.2
LEAST = 0.9
PERIOD = 0.025
POLL_SECONDS = 0.1
FRAME_BYTES = 131064
LARGE = 1_000_000
CHANNELS = 400
CONNECTIONS = 4
BACKLOG = 300
CROWD = 300
HELD = 40
NOTE = 15_000


class Attack(NamedTuple):
    """The setup before the attack, and the bytes that each of its connections, with its channels, writes without
    reading.
    """

    prepares: Callable[[Target], None]
    connections: int
    channels: int
    data: Callable[[], Iterator[bytes]]


def flood(connection: socket.socket, stop: threading.Event, data: Iterator[bytes]) -> None:
    """Write as fast as the socket accepts, until stopped."""
    connection.settimeout(1)
    for each in data:
        pending = memoryview(each)
        while pending and not stop.is_set():
            with suppress(TimeoutError):
                pending = pending[connection.send(pending) :]
        if stop.is_set():
            return
    stop.wait()


def attack_from(connection: socket.socket, stop: threading.Event, data: Iterator[bytes]) -> None:
    """Flood a connection, which the broker may close."""
    with suppress(ConnectionError):  # the broker may close an attacker's connection
        flood(connection, stop, data)
    connection.close()


def forever(data: bytes) -> Iterator[bytes]:
    """Repeat the same bytes."""
    while True:
        yield data


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Encode a frame."""
    return struct.pack("!BHI", kind, channel, len(payload)) + payload + FRAME_END


def announced(channel: int, key: str, size: int, bits: int = 0) -> bytes:
    """Return a publish up to where its body begins."""
    method = method_frame(channel, BASIC_PUBLISH, b"\0\0" + short_string("") + short_string(key) + bytes([bits]))
    return method + frame(HEADER_FRAME, channel, struct.pack("!HHQH", BASIC_CLASS, 0, size, 0))


def returns() -> Iterator[bytes]:
    """Mandatory publishes that no queue accepts; the returned messages are not read."""
    return forever((announced(1, "nowhere", 100_000, 1) + frame(BODY_FRAME, 1, bytes(100_000))) * 4)


def bodies() -> Iterator[bytes]:
    """Bodies that are begun and never finished, a hundred frames on each channel."""
    for channel in range(1, CHANNELS + 1):
        yield announced(channel, "nowhere", 128 * MIB)
        for _ in range(100):
            yield frame(BODY_FRAME, channel, bytes(FRAME_BYTES))


def gets() -> Iterator[bytes]:
    """The same large message got and requeued over and over."""
    again = method_frame(1, BASIC_GET, b"\0\0" + short_string("large") + b"\0")
    return forever((again + method_frame(1, BASIC_NACK, struct.pack("!QB", 0, 3))) * 20)


def crowd() -> Iterator[bytes]:
    """One consumer of a queue of large messages on each of many connections."""
    yield method_frame(1, BASIC_CONSUME, b"\0\0" + short_string("large") + short_string("") + b"\x08\0\0\0\0")


def consumers() -> Iterator[bytes]:
    """A hundred consumers of a queue of large messages."""
    for number in range(100):
        arguments = b"\0\0" + short_string("large") + short_string(str(number)) + b"\x08\0\0\0\0"
        yield method_frame(1, BASIC_CONSUME, arguments)


def declares() -> Iterator[bytes]:
    """Methods with long answers."""
    asked = b"\0\0" + short_string("good") + b"\x01\0\0\0\0"
    return forever(method_frame(1, QUEUE_DECLARE, asked) * 100)


def commits() -> Iterator[bytes]:
    """Methods behind a commit that waits for room in a full queue, on a connection that consumes."""
    yield method_frame(1, BASIC_CONSUME, b"\0\0" + short_string("idle") + short_string("") + b"\x08\0\0\0\0")
    yield method_frame(1, TX_SELECT) + publish("full", b"x", 20) + method_frame(1, TX_COMMIT)
    yield from declares()


def arguments() -> Iterator[bytes]:
    """Queues with unique names and unknown arguments, on one channel after the other: a refusal closes the channel."""
    whose, note = uuid4().hex, table({"x-note": "x" * NOTE})
    for channel in range(1, CHANNELS + 1):
        for number in range(100):
            name = short_string(f"{whose}.{channel}.{number}")
            yield method_frame(channel, QUEUE_DECLARE, b"\0\0" + name + b"\x10" + note)


def drip() -> Iterator[bytes]:
    """Publishes to a full queue by a client with an unacked delivery, whose ack may be behind them."""
    yield method_frame(1, BASIC_GET, b"\0\0" + short_string("stock") + b"\0")
    yield from forever(publish("full", bytes(4096), 16))


def backlog(target: Target) -> None:
    """Fill a queue with large messages."""
    prepare(target, "large", {})
    wire = Wire(target)
    message = announced(1, "large", LARGE)
    message += b"".join(
        frame(BODY_FRAME, 1, bytes(min(FRAME_BYTES, LARGE - at))) for at in range(0, LARGE, FRAME_BYTES)
    )
    for _ in range(BACKLOG):
        wire.socket.sendall(message)
    wire.close()


def full(target: Target) -> None:
    """Fill a queue with a limit of ten messages, and declare an idle one."""
    prepare(target, "idle", {})
    prepare(target, "full", {"x-max-length": 10, "x-overflow": "flow"})
    wire = Wire(target)
    wire.socket.sendall(publish("full", b"x", 8))
    wire.close()


def stocked(target: Target) -> None:
    """Do as `full`, and put messages into a queue for `drip` to get."""
    full(target)
    prepare(target, "stock", {})
    wire = Wire(target)
    wire.socket.sendall(publish("stock", b"x", HELD))
    wire.close()


ATTACKS = {
    "returns": Attack(lambda target: None, 1, 1, returns),
    "bodies": Attack(lambda target: None, CONNECTIONS, CHANNELS, bodies),
    "gets": Attack(backlog, 1, 1, gets),
    "consumers": Attack(backlog, CONNECTIONS, 1, consumers),
    "crowd": Attack(backlog, CROWD, 1, crowd),
    "declares": Attack(lambda target: None, CONNECTIONS, 1, declares),
    "commits": Attack(full, CONNECTIONS, 1, commits),
    "arguments": Attack(lambda target: None, CONNECTIONS, CHANNELS, arguments),
    "drip": Attack(stocked, HELD, 1, drip),
}


class Good:
    """A client that publishes, waits for the confirm, and gets the message back."""

    def __init__(self, target: Target) -> None:
        prepare(target, "good", {})
        self.wire = Wire(target, capabilities=("publisher_confirms", "basic.nack", "connection.blocked"))
        self.wire.call(CONFIRM_SELECT, b"\0", CONFIRM_SELECT_OK)
        self.input = bytearray(self.wire.received)
        self.blocked = 0
        self.longest = 0.0

    def rounds(self, seconds: float) -> int:
        """Return how many round trips it completes in that time, at most one each period."""
        done, due, ends = 0, time.monotonic(), time.monotonic() + seconds
        while (began := time.monotonic()) < ends:
            self.wire.socket.sendall(publish("good", b"good"))
            self.wait_for(BASIC_ACK)
            self.wire.socket.sendall(method_frame(1, BASIC_GET, b"\0\0" + short_string("good") + b"\x01"))
            self.wait_for(BASIC_GET_OK)
            self.longest = max(self.longest, time.monotonic() - began)
            done += 1
            due = max(due + PERIOD, began)
            time.sleep(max(due - time.monotonic(), 0))
        return done

    def wait_for(self, method: bytes) -> None:
        """Read until the broker sends `method`, counting connection.blocked on the way."""
        while True:
            while (found := self.next_method()) is None:
                more = self.wire.socket.recv(65536)
                if not more:
                    raise ConnectionResetError("the broker hung up on the good client")
                self.input += more
            self.blocked += found == BLOCKED
            if found == method:
                return

    def next_method(self) -> bytes | None:
        """Remove frames up to the next whole method frame and return its class and method, encoded; None if there is
        none.
        """
        while len(self.input) >= FRAME_OVERHEAD:
            kind, _, size = struct.unpack_from("!BHI", self.input)
            if len(self.input) < size + FRAME_OVERHEAD:
                return None
            head = bytes(self.input[7:11])
            del self.input[: size + FRAME_OVERHEAD]
            if kind == METHOD_FRAME:
                return head
        return None


class Watch(threading.Thread):
    """Samples the private memory of a node's processes, in bytes: the peak of each, and of all together."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peaks: dict[str, int] = {}
        self.most = 0
        self.ended = threading.Event()

    def run(self) -> None:
        """Sample until `ended` is set."""
        while not self.ended.wait(POLL_SECONDS):
            total = 0
            for process in living(self.pid):
                with suppress(psutil.Error):
                    nbytes, name = private_memory(process.pid) - shared_memory(process.pid), process.name()
                    total += nbytes
                    self.peaks[name] = max(self.peaks.get(name, 0), nbytes)
            self.most = max(self.most, total)


class Result(NamedTuple):
    """The result of one attack: memory in bytes, round trips of the good client a second."""

    attack: str
    peaks: dict[str, int]
    most: int
    rate: float
    rate_before: float
    longest: float
    blocked: int

    def broken(self) -> list[str]:
        """Describe the promises that the node broke."""
        found = []
        if self.most > LIMIT * SLACK:
            found.append(f"{self.most // MIB} MiB, the limit is {LIMIT // MIB}")
        if self.rate < LEAST * self.rate_before:
            found.append(f"the good client got {self.rate:.1f} rounds a second instead of {self.rate_before:.1f}")
        if self.blocked:
            found.append("the good client was blocked")
        return [f"{self.attack}: {text}" for text in found]


def run(node: LocalNode, name: str, seconds: float, before: float) -> Result:
    """Run an attack on a node, after the good client has run alone for `before` seconds."""
    attack, target = ATTACKS[name], node.target
    attack.prepares(target)
    good, watch, stop = Good(target), Watch(node.pid), threading.Event()
    rate_before = good.rounds(before) / before
    good.longest = 0.0
    wires = [Wire(target, attack.channels) for _ in range(attack.connections)]
    watch.start()
    threads = [
        threading.Thread(target=attack_from, args=(wire.socket, stop, attack.data()), daemon=True) for wire in wires
    ]
    for thread in threads:
        thread.start()
    try:
        rate = good.rounds(seconds) / seconds
    finally:
        stop.set()
        watch.ended.set()
    for thread in [*threads, watch]:
        thread.join()
    good.wire.close()
    return Result(name, watch.peaks, watch.most, rate, rate_before, good.longest, good.blocked)


def main(
    attacks: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(ATTACKS)}; default: all")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="length of each attack")] = 15.0,
) -> None:
    """Attack a broker with small limits from one malicious client, with a good client beside it."""
    unknown = [name for name in attacks or () if name not in ATTACKS]
    if unknown:
        raise typer.BadParameter(f"no attack {', '.join(unknown)}")
    broken = []
    for name in attacks or ATTACKS:
        with tempfile.TemporaryDirectory(prefix="hostile-") as directory, LocalNode(Path(directory), *OPTIONS) as node:
            result = run(node, name, seconds, 3.0)
        peaks = ", ".join(f"{process} {nbytes // MIB}" for process, nbytes in sorted(result.peaks.items()))
        print(
            f"{name}: {result.most // MIB} MiB at most ({peaks}); good client {result.rate:.1f}/s "
            f"({result.rate_before:.1f} before), longest round {result.longest * 1000:.0f} ms",
            flush=True,
        )
        broken += result.broken()
    for text in broken:
        print(text)
    raise typer.Exit(bool(broken))


if __name__ == "__main__":
    typer.run(main)
