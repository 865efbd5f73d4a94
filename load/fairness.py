"""Whether producers get shares of a queue in proportion to their fair share weights, whatever limits the queue.

    python -m load.fairness

Shares must not depend on a producer's acceptor, the size of its window, or the number of its channels.

Each course is one queue whose producers always have something to publish, within a window of unconfirmed messages, and
offer more than is consumed or let in. Their shares, by weight, are judged by Jain's index: 1 where all are equal, 1 / n
where one producer gets everything. The kernel chooses the acceptor of each producer.
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
WARM_UP_SECONDS, POLL_SECONDS = 2.0, 0.002


WEIGHT, WEIGHTY, PASSWORD = 5, "weighty", "secret"


class Offer(NamedTuple):
    """The offer of one producer, a connection: its window of unconfirmed messages on each channel, its channels, its
    fair share weight.
    """

    window: int = WINDOW
    channels: int = 1
    weight: int = 1


class Course(NamedTuple):
    """A queue's arguments; its producers and the priority of their messages; messages consumed a second."""

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
    """The result of one course: messages confirmed for each producer, divided by its weight; seconds; and the total."""

    course: str
    acceptors: int
    shares: list[int]
    seconds: float
    total: int

    @property
    def jain(self) -> float:
        """Jain's index of the shares."""
        return jain(self.shares)

    def __str__(self) -> str:
        rate = self.total / self.seconds
        return (
            f"{self.course:<8} {self.acceptors:>9} {self.jain:>6.3f} {min(self.shares):>7} {max(self.shares):>7}"
            f" {rate:>9.0f}"
        )


HEAD = f"{'course':<8} {'acceptors':>9} {'Jain':>6} {'least':>7} {'most':>7} {'messages/s':>10}"


def jain(shares: Sequence[int]) -> float:
    """Jain's index of fairness; 0 if nothing was confirmed at all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


class Producer(Peer):
    """Keeps its window of unconfirmed messages full on each of its channels."""

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
        """Count the confirms received."""
        for channel, method, arguments in self.methods_of_channels():
            if method == BASIC_ACK:
                settled = self.unconfirmed[channel].settle(*settled_up_to(arguments))
                self.confirmed += sum(end - first for first, end in settled)

    def write(self, now: float) -> None:
        """Refill the windows, and write as far as the socket accepts."""
        data = []
        for channel, unconfirmed in self.unconfirmed.items():
            room = self.window - len(unconfirmed)
            for _ in range(room):
                unconfirmed.publish()
            data.append(self.messages[channel] * room)
        if self.pending or any(data):
            self.send(b"".join(data))


class Consumer(Peer):
    """Acks `rate` messages a second."""

    def __init__(self, target: Target, queue: str, rate: int) -> None:
        wire = Wire(target)
        wire.call(BASIC_QOS, qos(PREFETCH), BASIC_QOS_OK)
        wire.call(BASIC_CONSUME, consume(queue, True), BASIC_CONSUME_OK)
        super().__init__(wire)
        self.rate = rate
        self.began = time.monotonic()
        self.delivered = self.acked = 0

    def read(self) -> None:
        """Count the deliveries received."""
        self.delivered += sum(method == BASIC_DELIVER for method, _ in self.methods())

    def write(self, now: float) -> None:
        """Ack the deliveries due by `now`."""
        due = min(self.delivered, int((now - self.began) * self.rate))
        if self.pending or due > self.acked:
            self.send(ack_up_to(due) if due > self.acked else b"")
            self.acked = due


def run(target: Target, course: Course, acceptors: int, seconds: float) -> Result:
    """Run a course on a broker."""
    queue = f"fairness-{course.name}"
    prepare(target, queue, course.arguments)
    producers = [Producer(target, queue, offer, course.priority) for offer in course.offers]
    peers: list[Producer | Consumer] = [*producers, Consumer(target, queue, course.consumed)]
    try:
        run_peers(peers, WARM_UP_SECONDS)
        before = [producer.confirmed for producer in producers]
        took = run_peers(peers, seconds)
        got = [producer.confirmed - was for producer, was in zip(producers, before, strict=True)]
    finally:
        for peer in peers:
            peer.socket.close()
    shares = [count // offer.weight for count, offer in zip(got, course.offers, strict=True)]
    return Result(course.name, acceptors, shares, took, sum(got))


def add_weighty(data: Path) -> None:
    """Create the user with a fair share weight on the node of that data directory."""
    policy = f'{{"weight": {WEIGHT}}}'
    for command in (
        ("user", "add", WEIGHTY),
        ("permission", "set", WEIGHTY, ".*", ".*", ".*"),
        ("policy", "set", WEIGHTY, f"^{WEIGHTY}$", policy, "--apply-to", "users"),
    ):
        arguments = [sys.executable, "-m", "ops", *command, "--data", str(data)]
        subprocess.run(arguments, input=f"{PASSWORD}\n", text=True, check=True, stdout=subprocess.DEVNULL)


def run_peers(peers: Sequence[Producer | Consumer], seconds: float) -> float:
    """Let all peers read and write for `seconds`; return the time it really took."""
    began = now = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            selector.register(peer.socket, selectors.EVENT_READ, peer)
            peer.read()
        while now < began + seconds:
            for key, _ in selector.select(POLL_SECONDS):
                key.data.read()
            now = time.monotonic()
            for peer in peers:
                peer.write(now)
    return now - began


def unfair(results: Sequence[Result]) -> list[str]:
    """Describe the courses below the least index."""
    return [
        f"{result.course} with {result.acceptors} acceptors: Jain {result.jain:.3f}, wanted {LEAST}"
        for result in results
        if result.jain < LEAST
    ]


def main(
    seconds: Annotated[float, typer.Option(min=0.1, help="how long each course is measured")] = 5.0,
    acceptors: Annotated[list[int] | None, typer.Option(help="numbers of acceptors; default: 1, 2 and 4")] = None,
    course: Annotated[list[str] | None, typer.Option(help="courses to run; default: all")] = None,
) -> None:
    """Measure fairness on brokers started for it: equal producers at marks, at a pace, at a rate and in a priority
    lane; at marks, also producers with different windows, many channels, or a weight.
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
