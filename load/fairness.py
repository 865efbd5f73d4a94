"""Whether producers get shares of what a queue lets in as their weights say, whatever limits it.

It is to be so at whatever acceptor they are, however much they have under way, and over however many channels.

    python -m load.fairness

Each course is one queue whose producers always have something to publish, within a window of unconfirmed messages, and
of which less is consumed, or let in, than they offer. Their shares, by weight, are judged by Jain's index: 1 where all
get the same, 1 / n where one gets everything. The kernel decides which acceptor a producer is at.
"""

from __future__ import annotations

import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from load.confirms import ConfirmWindow
from load.frames import (
    BASIC_ACK,
    BASIC_CONSUME,
    BASIC_CONSUME_OK,
    BASIC_QOS,
    BASIC_QOS_OK,
    CONFIRM_SELECT,
    CONFIRM_SELECT_OK,
    ack_up_to,
    consume,
    publish,
    qos,
)
from load.node import LocalNode
from load.peer import BASIC_DELIVER, Peer, settled_up_to
from load.probe import prepare
from load.target import Target
from load.wire import Wire

LEAST = 0.95
PRODUCERS, WINDOW, RATE = 20, 200, 1500
SIZE, PREFETCH = 100, 100
WARM_UP_SECONDS, LOOK_SECONDS = 2.0, 0.002


WEIGHT, WEIGHTY, PASSWORD = 5, "weighty", "secret"


class Offer(NamedTuple):
    """What a producer, a connection, offers: how much is unconfirmed on each of its channels; its weight."""

    window: int = WINDOW
    channels: int = 1
    weight: int = 1


class Course(NamedTuple):
    """A queue's arguments; its producers and the priority of what they publish; messages a second that are consumed."""

    name: str
    arguments: dict[str, object]
    offers: Sequence[Offer] = (Offer(),) * PRODUCERS
    priority: int = 0
    consumed: int = RATE


MARKS: dict[str, object] = {"x-flow-stop-count": 2000, "x-flow-resume-count": 1500}
COURSES = (
    Course("marks", MARKS),
    Course("pace", {"x-pace-depth": 200}),
    Course("rate", {"x-max-rate": RATE}, consumed=10 * RATE),
    Course("lane", {**MARKS, "x-lane-priority": 5, "x-lane-reserve": 500}, priority=9),
    Course("windows", MARKS, [Offer(window) for window in (20, 50, 100, 200, 500, 1000, 2000)]),
    Course("channels", MARKS, [Offer(100, channels=50), *[Offer(100)] * 5]),
    Course("weights", MARKS, [Offer(weight=WEIGHT), *[Offer()] * 5]),
)


class Result(NamedTuple):
    """Of one course: what each producer got confirmed, by its weight, in so many seconds; and all of them together."""

    course: str
    acceptors: int
    shares: list[int]
    seconds: float
    total: int

    @property
    def jain(self) -> float:
        return jain(self.shares)

    def __str__(self) -> str:
        rate = self.total / self.seconds
        return (
            f"{self.course:<8} {self.acceptors:>9} {self.jain:>6.3f} {min(self.shares):>7} {max(self.shares):>7}"
            f" {rate:>9.0f}"
        )


HEAD = f"{'course':<8} {'acceptors':>9} {'Jain':>6} {'least':>7} {'most':>7} {'messages/s':>10}"


def jain(shares: Sequence[int]) -> float:
    """Jain's index of fairness; 0 where nobody got anything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


class Producer(Peer):
    """Keeps its window of unconfirmed messages full, on each of its channels."""

    def __init__(self, target: Target, queue: str, offer: Offer, priority: int) -> None:
        if offer.weight != 1:
            target = replace(target, user=WEIGHTY, password=PASSWORD)
        wire = Wire(target, offer.channels, capabilities=("publisher_confirms", "basic.nack"))
        self.unconfirmed: dict[int, ConfirmWindow] = {}
        self.messages: dict[int, bytes] = {}
        for channel in range(1, offer.channels + 1):
            wire.call(CONFIRM_SELECT, b"\0", CONFIRM_SELECT_OK, channel)
            self.unconfirmed[channel] = ConfirmWindow()
            self.messages[channel] = publish(queue, bytes(SIZE), priority=priority, channel=channel)
        super().__init__(wire)
        self.window = offer.window
        self.confirmed = 0

    def read(self) -> None:
        for channel, method, arguments in self.methods_of_channels():
            if method == BASIC_ACK:
                settled = self.unconfirmed[channel].settle(*settled_up_to(arguments))
                self.confirmed += sum(end - first for first, end in settled)

    def write(self, now: float) -> None:
        octets = []
        for channel, unconfirmed in self.unconfirmed.items():
            room = self.window - len(unconfirmed)
            for _ in range(room):
                unconfirmed.publish()
            octets.append(self.messages[channel] * room)
        if self.pending or any(octets):
            self.send(b"".join(octets))


class Consumer(Peer):
    """Acks so many messages a second."""

    def __init__(self, target: Target, queue: str, rate: int) -> None:
        wire = Wire(target)
        wire.call(BASIC_QOS, qos(PREFETCH), BASIC_QOS_OK)
        wire.call(BASIC_CONSUME, consume(queue, True), BASIC_CONSUME_OK)
        super().__init__(wire)
        self.rate = rate
        self.began = time.monotonic()
        self.delivered = self.acked = 0

    def read(self) -> None:
        self.delivered += sum(method == BASIC_DELIVER for method, _ in self.methods())

    def write(self, now: float) -> None:
        due = min(self.delivered, int((now - self.began) * self.rate))
        if self.pending or due > self.acked:
            self.send(ack_up_to(due) if due > self.acked else b"")
            self.acked = due


def run(target: Target, course: Course, acceptors: int, seconds: float) -> Result:
    """Have the course run on a broker."""
    queue = f"fairness-{course.name}"
    prepare(target, queue, course.arguments)
    producers = [Producer(target, queue, offer, course.priority) for offer in course.offers]
    peers: list[Producer | Consumer] = [*producers, Consumer(target, queue, course.consumed)]
    try:
        go_on(peers, WARM_UP_SECONDS)
        before = [producer.confirmed for producer in producers]
        took = go_on(peers, seconds)
        got = [producer.confirmed - was for producer, was in zip(producers, before, strict=True)]
    finally:
        for peer in peers:
            peer.socket.close()
    shares = [count // offer.weight for count, offer in zip(got, course.offers, strict=True)]
    return Result(course.name, acceptors, shares, took, sum(got))


def add_weighty(data: Path) -> None:
    """Make the user with a weight, on the node of that data directory."""
    policy = f'{{"weight": {WEIGHT}}}'
    for command in (
        ("user", "add", WEIGHTY),
        ("permission", "set", WEIGHTY, ".*", ".*", ".*"),
        ("policy", "set", WEIGHTY, f"^{WEIGHTY}$", policy, "--apply-to", "users"),
    ):
        arguments = [sys.executable, "-m", "ops", *command, "--data", str(data)]
        subprocess.run(arguments, input=f"{PASSWORD}\n", text=True, check=True, stdout=subprocess.DEVNULL)


def go_on(peers: Sequence[Producer | Consumer], seconds: float) -> float:
    """Have all of them read and write for that long; for how long it was."""
    began = now = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            selector.register(peer.socket, selectors.EVENT_READ, peer)
            peer.read()
        while now < began + seconds:
            for key, _ in selector.select(LOOK_SECONDS):
                key.data.read()
            now = time.monotonic()
            for peer in peers:
                peer.write(now)
    return now - began


def unfair(results: Sequence[Result]) -> list[str]:
    """Which courses are below the least index."""
    return [
        f"{result.course} with {result.acceptors} acceptors: Jain {result.jain:.3f}, wanted {LEAST}"
        for result in results
        if result.jain < LEAST
    ]


def main(
    seconds: Annotated[float, typer.Option(min=0.1, help="how long each course is measured")] = 5.0,
    acceptors: Annotated[list[int] | None, typer.Option(help="numbers of acceptors, 1, 2 and 4 unless given")] = None,
    course: Annotated[list[str] | None, typer.Option(help="courses to run, all unless given")] = None,
) -> None:
    """Equal producers at marks, at a pace, at a rate and in a priority lane; and at marks those with windows of many
    sizes, many channels, and a weight: on brokers started for it.
    """
    results = []
    print(HEAD, flush=True)
    for number in acceptors or (1, 2, 4):
        options = ("--acceptors", str(number), "--shards", "1")
        with tempfile.TemporaryDirectory(prefix="fairness-") as directory, LocalNode(Path(directory), *options) as node:
            add_weighty(node.data)
            for each in COURSES:
                if not course or each.name in course:
                    results.append(run(node.target, each, number, seconds))
                    print(results[-1], flush=True)
    wrong = unfair(results)
    for text in wrong:
        print(text)
    raise typer.Exit(bool(wrong))


if __name__ == "__main__":
    typer.run(main)
