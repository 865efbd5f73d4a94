"""The cost of a storm of TLS handshakes for a client that is connected: `python -m load.handshakes`.

A client in C publishes at a steady rate and consumes what it publishes; its rate and latency are measured without a
storm and in one, on each of two brokers in turn. The storm is that of an attacker, or of clients that give up early: a
connection sends the first message of a handshake and hangs up when the answer begins. The costly part of the
handshake, the broker's key exchange and signature, is in that answer. It hardly costs the storm anything, so the broker
keeps the machine. `--sends` chooses other attacks, `--addresses` from how many addresses they come.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import ssl
import struct
import threading
import time
from enum import StrEnum
from ipaddress import IPv4Address, ip_address
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Final, Self

import typer
from pika.exceptions import AMQPError

from load import pump, wire
from load.courses import heading, row
from load.latency import Pace
from load.processes import allow_open_files
from load.target import Target
from load.throughput import Shape
from load.tls import client_context
from load.wire import PROTOCOL_HEADER

PATIENCE_SECONDS = 1.0
"""Time that a connection of the storm waits for its answer."""
SPARE_FILES = 100
TURN_SECONDS = 0.001
SECONDS_MAX = 60
HANDSHAKE: Final = b"\x16"
"""The first byte of a record with a message of the handshake; an alert begins with another."""
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER that resets a connection, which leaves no port in TIME_WAIT."""


class Sends(StrEnum):
    """What a connection of the storm sends."""

    HELLO = "hello"
    """The first message of a handshake."""
    HALF = "half"
    """Half of it: the broker waits for the rest."""
    NOTHING = "nothing"
    RANDOM = "random"
    """Octets without sense, as many as the first message has."""
    PLAIN = "plain"
    """AMQP without TLS."""


class Storm:
    """Offers handshakes to a broker, `rate` a second, within a `with` block, from a thread of its own. At the end
    `answered`, `refused` (hung up on, or not accepted) and `given_up` count them. They come from so many addresses of
    this machine, for a broker at an address of IPv4.
    """

    def __init__(self, target: Target, rate: float, sends: Sends = Sends.HELLO, addresses: int = 1) -> None:
        self.answered = self.refused = self.given_up = 0
        self.seconds = 0.0
        self._target, self._rate, self._sends = target, rate, sends
        here = ip_address(target.host)
        self._from = [str(here + number) for number in range(addresses)] if isinstance(here, IPv4Address) else []
        self._opened: dict[socket.socket, float] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="storm of handshakes")

    def __enter__(self) -> Self:
        allow_open_files(int(self._rate * PATIENCE_SECONDS) + SPARE_FILES)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        hello = first_message(self._target)
        began, offered = time.monotonic(), 0
        with selectors.DefaultSelector() as selector:
            while not self._ending.is_set():
                now = time.monotonic()
                while offered < (now - began) * self._rate:
                    self._offer(selector, self._first(hello), offered)
                    offered += 1
                for key, _ in selector.select(TURN_SECONDS):
                    self._take_answer(selector, key.fileobj)
                self._give_up(selector, now - PATIENCE_SECONDS)
            self._give_up(selector, time.monotonic())
        self.seconds = time.monotonic() - began

    def _first(self, hello: bytes) -> bytes:
        """Return what the next connection sends."""
        match self._sends:
            case Sends.HELLO:
                return hello
            case Sends.HALF:
                return hello[: len(hello) // 2]
            case Sends.RANDOM:
                return os.urandom(len(hello))
            case Sends.PLAIN:
                return PROTOCOL_HEADER
            case Sends.NOTHING:
                return b""

    def _offer(self, selector: selectors.BaseSelector, first: bytes, number: int) -> None:
        """Connect and send the first message: on this machine a broker that accepts has done so by then."""
        family = socket.AF_INET6 if ":" in self._target.host else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        try:
            if len(self._from) > 1:
                connection.bind((self._from[number % len(self._from)], 0))
            connection.connect_ex((self._target.host, self._target.port))
            connection.send(first)
        except OSError:
            self.refused += 1
            connection.close()
        else:
            self._opened[connection] = time.monotonic()
            selector.register(connection, selectors.EVENT_READ)

    def _take_answer(self, selector: selectors.BaseSelector, connection: Any) -> None:
        try:
            answer = connection.recv(1)
        except OSError:
            answer = b""
        self.answered += answer == HANDSHAKE
        self.refused += answer != HANDSHAKE
        self._close(selector, connection)

    def _give_up(self, selector: selectors.BaseSelector, before: float) -> None:
        """Hang up where no answer has come since before this time."""
        for connection, _ in list(takewhile(lambda opened: opened[1] < before, self._opened.items())):
            self.given_up += 1
            self._close(selector, connection)

    def _close(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        del self._opened[connection]
        selector.unregister(connection)
        connection.close()


def first_message(target: Target) -> bytes:
    """Return the first message of a client's handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(target.authority).wrap_bio(incoming, outgoing, server_hostname=target.host)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake needs an answer")


def measure(target: Target, seconds: float, pace: Pace, storm: Storm) -> dict[str, dict[str, float]]:
    """Return the figures of the client (`load.pump.latency`) without a storm and in this one, and those of the storm, a
    second.
    """
    calm = pump.latency(target, None, seconds, pace)
    stormy = pump.latency(target, None, seconds, pace, storm)
    for name in ("answered", "refused", "given_up"):
        stormy[name] = getattr(storm, name) / storm.seconds
    return {"without": calm, "storm": stormy}


COLUMNS: Final = {
    "messages_per_second": "messages/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "answered": "answered/s",
    "refused": "refused/s",
    "given_up": "given up/s",
}
"""The titles of the table, by figure."""


def target_of(url: str, authority: Path | None) -> Target:
    """Return the broker of a URL. ValueError unless it has TLS and is on this machine, by address."""
    target = Target.parse(url, authority)
    try:
        here = ip_address(target.host).is_loopback
    except ValueError:
        here = False
    if not here or not target.tls:
        raise ValueError(f"a storm is for this machine and TLS only, such as amqps://127.0.0.1: {url!r}")
    return target


def handshakes(
    a: Annotated[str, typer.Option(help="URL of broker A, amqps:// and an address of this machine")],
    b: Annotated[str | None, typer.Option(help="URL of broker B, measured in turn with A")] = None,
    rate: Annotated[float, typer.Option(min=1, max=20000, help="handshakes offered a second")] = 2000,
    sends: Annotated[Sends, typer.Option(help="what the connections of the storm send")] = Sends.HELLO,
    addresses: Annotated[int, typer.Option(min=1, max=250, help="addresses the storm comes from, with IPv4")] = 1,
    messages: Annotated[float, typer.Option(min=1, help="messages a second of the client")] = 2000,
    seconds: Annotated[float, typer.Option(min=0.1, max=SECONDS_MAX, help="length of each measurement")] = 5,
    runs: Annotated[int, typer.Option(min=1, help="runs on each broker")] = 3,
    authority: Annotated[
        Path | None, typer.Option(help="file of the authorities of both brokers; without it they are not verified")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the figures of every run here")] = None,
) -> None:
    """Measure the rate and the latency of a connected client without and in a storm of TLS handshakes."""
    pace = Pace(Shape(size=256, burst=1, prefetch=100), messages)
    results: dict[str, list[dict[str, dict[str, float]]]] = {}
    try:
        targets = {name: target_of(url, authority) for name, url in (("A", a), ("B", b)) if url is not None}
        for target in targets.values():
            wire.check(target)
        for run in range(runs):
            for name in reversed(targets) if run % 2 else targets:
                storm = Storm(targets[name], rate, sends, addresses)
                results.setdefault(name, []).append(measure(targets[name], seconds, pace, storm))
    except (ValueError, OSError, EOFError, AMQPError) as error:
        typer.echo(f"handshakes: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(heading(COLUMNS))
    for name in targets:
        for course in ("without", "storm"):
            typer.echo(row(COLUMNS, name, course, results[name]))
    if json_file is not None:
        json_file.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    typer.run(handshakes)
