"""Backup of a node while its clients go on: a restore brings back, whole, the contents of one moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from router.model.placement import place
from tests.broker import Broker
from tests.broker.test_move import move
from tests.ops.store.test_command import penstock
from tests.outcomes import Confirms
from tests.raw import Channel, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

Work = Callable[[Client, Callable[[], bool]], object]
"""The work of a client, repeated until the test ends it."""
SHARDS = 2
QUEUES = tuple(next(f"{stem}{n}" for n in range(99) if place("/", f"{stem}{n}", range(SHARDS), {}) == shard)
               for stem, shard in (("source", 0), ("target", 1)))  # fmt: skip


def body_of(number: int) -> bytes:
    """Return a body: a number, padding and a checksum."""
    data = b"%d:" % number + b"x" * (number * 37 % 5000)
    return data + sha256(data).digest()


def number_of(body: bytes) -> int:
    """Return the number in a body. AssertionError if the body has changed."""
    assert sha256(body[:-32]).digest() == body[-32:]
    return int(body.partition(b":")[0])


def declare(broker: Broker) -> None:
    with Client.connect(broker.address) as client:
        channel = client.channel()
        for queue in QUEUES:
            channel.call("queue.declare", queue=queue, durable=True)


def found(broker: Broker) -> list[int]:
    """Consume both queues; return the numbers of all their messages."""
    came = []
    with Client.connect(broker.address) as client:
        channel = client.channel()
        for queue in QUEUES:
            depth = channel.depth(queue)
            channel.call("basic.consume", queue=queue, no_ack=True)
            came += [number_of(channel.take("basic.deliver").body) for _ in range(depth)]
            assert channel.depth(queue) == 0
    return came


@contextmanager
def going_on(broker: Broker, work: Work) -> Iterator[None]:
    """Run a client's work in a thread until the block ends. AssertionError if the work has failed."""
    stop = threading.Event()
    problems: list[BaseException] = []

    def run() -> None:
        try:
            with Client.connect(broker.address) as client:
                work(client, stop.is_set)
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        assert not problems, problems


class Publisher:
    """A client that publishes to both queues in turn; `confirmed` has the numbers of confirmed messages."""

    def __init__(self) -> None:
        self.confirmed: set[int] = set()

    def __call__(self, client: Client, is_over: Callable[[], bool]) -> None:
        confirms = Confirms(client.channel())
        while not is_over():
            for _ in range(50):
                number = confirms.published + 1
                confirms.publish(body_of(number), QUEUES[number % 2], delivery_mode=2)
            confirms.wait()
            assert not confirms.nacked
            self.confirmed = set(confirms.acked)


@pytest.mark.parametrize("durability", ["commit", "none"])
def test_what_was_confirmed_before_is_there(tmp_path: Path, durability: str) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    publisher = Publisher()
    with Broker(tmp_path / "one", f"store.durability={durability}", shards=SHARDS, acceptors=2) as broker:
        declare(broker)
        with going_on(broker, publisher):
            wait_for(lambda: len(publisher.confirmed) > 600, what="confirms")
            before = publisher.confirmed
            made = broker.penstock("store", "backup", str(tmp_path / "backup"))
            assert (made.returncode, made.stderr) == (0, "")
            after = len(publisher.confirmed)
            wait_for(lambda: len(publisher.confirmed) > after, what="confirms after the backup")
        assert after > len(before), "nothing was confirmed during the backup"
        refused = broker.penstock("store", "restore", str(tmp_path / "backup"))
        assert (refused.returncode, "is in use by another broker" in refused.stderr) == (2, True)
        everything = found(broker)
        assert sorted(everything) == sorted(publisher.confirmed)
        restored = penstock("restore", str(tmp_path / "backup"), "--data", str(tmp_path / "other/data"))
        assert (restored.returncode, restored.stderr) == (0, "")
    with Broker(tmp_path / "other", shards=SHARDS) as later:
        came = found(later)
        assert len(came) == len(set(came))
        assert before <= set(came) <= publisher.confirmed
        with Client.connect(later.address) as client:
            confirms = Confirms(client.channel())
            confirms.publish(body_of(7), QUEUES[0], delivery_mode=2)
            confirms.wait()
        later.stop()
        assert later.penstock("store", "check").returncode == 0
        again = later.penstock("store", "restore", str(tmp_path / "backup"))
        assert again.returncode == 0
        assert f"{tmp_path}/other/data/shards is now {tmp_path}/other/data/shards.set-aside" in again.stdout
        later.start()
        assert found(later) == came


MESSAGES = 40


class Mover:
    """A client that moves messages from one queue to the other and back, three in a transaction; `moved` counts
    transactions.
    """

    def __init__(self) -> None:
        self.moved = 0

    def __call__(self, client: Client, is_over: Callable[[], bool]) -> None:
        channel = client.channel()
        channel.call("tx.select")
        source, target = QUEUES
        while not is_over():
            if not self._move(channel, source, target):
                source, target = target, source

    def _move(self, channel: Channel, source: str, target: str) -> bool:
        """Move up to three messages in a transaction; return whether there were any."""
        taken = [event for _ in range(3) if (event := channel.get(source, no_ack=False)) is not None]
        for event in taken:
            channel.publish(event.body, target, delivery_mode=2)
            channel.send("basic.ack", delivery_tag=event.delivery_tag)
        channel.call("tx.commit")
        self.moved += 1
        return bool(taken)


def backed_up_while(broker: Broker, directory: Path, work: Work, done: Callable[[], int]) -> Iterator[list[int]]:
    """Make backups of a node during `work`, whose progress `done` counts; yield the contents of a node restored from
    each.
    """
    times = range(3)
    with going_on(broker, work):
        for turn in times:
            before = done()
            wait_for(lambda: done() > before + 3, what="some more")  # noqa: B023
            made = broker.penstock("store", "backup", str(directory / f"backup-{turn}"))
            assert (made.returncode, made.stderr) == (0, "")
            checked = broker.penstock("store", "check")
            assert checked.returncode == 0, checked.stdout
    for turn in times:
        node = directory / f"node-{turn}"
        node.mkdir()
        restored = penstock("restore", str(directory / f"backup-{turn}"), "--data", str(node / "data"))
        assert (restored.returncode, restored.stderr) == (0, "")
        with Broker(node, shards=SHARDS) as later:
            yield sorted(found(later))


def filled(broker: Broker) -> None:
    """Declare both queues and publish all messages to the first."""
    declare(broker)
    with Client.connect(broker.address) as client:
        confirms = Confirms(client.channel())
        for number in range(MESSAGES):
            confirms.publish(body_of(number), QUEUES[0], delivery_mode=2)
        confirms.wait()


def test_transactions_over_two_shards_are_in_it_whole_or_not_at_all(tmp_path: Path) -> None:
    mover = Mover()
    with Broker(tmp_path, shards=SHARDS) as broker:
        filled(broker)
        for came in backed_up_while(broker, tmp_path, mover, lambda: mover.moved):
            assert came == list(range(MESSAGES))


def test_queues_that_move_meanwhile_are_in_it_once(tmp_path: Path) -> None:
    moves = []

    def keep_moving(client: Client, is_over: Callable[[], bool]) -> None:
        shard = 0
        while not is_over():
            shard = 1 - shard
            moves.append(move(broker, QUEUES[0], shard)["result"])

    with Broker(tmp_path, shards=SHARDS) as broker:
        filled(broker)
        for came in backed_up_while(broker, tmp_path, keep_moving, lambda: len(moves)):
            assert came == list(range(MESSAGES))
    assert set(moves) == {"moved"}
