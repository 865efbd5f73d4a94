"""Damage to files of a stopped node: afterwards it serves correct messages and reports the rest.

Each seed damages one file of a node that stopped in order, was killed, or was killed while commits do not wait for the
disk. Then the node refuses to start, with one line that names the file; or it starts, and each message arrives as it
was published, in order, or is counted in the log.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.broker import Broker
from tests.faults.damage import Harm, harm
from tests.faults.rounds import SEED
from tests.outcomes import Confirms, bodies
from tests.raw import Client

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600), pytest.mark.xdist_group("damage")]

SIZES = {"small": 40, "mixed": 900, "large": 9000, "done": 200}
"""Queues, with the approximate maximum size of their messages."""
COUNT = 120
STATES = ("ended", "killed", "interval")


def body(queue: str, number: int) -> bytes:
    chance = random.Random(f"{queue} {number}")
    return b"%s %d " % (queue.encode(), number) + chance.randbytes(chance.randrange(SIZES[queue]))


def fill(broker: Broker, first: int, count: int) -> None:
    with Client.connect(broker.address) as client:
        confirms = Confirms(client.channel())
        for queue in SIZES:
            confirms.channel.call("queue.declare", queue=queue, durable=True)
        for number in range(first, first + count):
            for queue in SIZES:
                confirms.publish(body(queue, number), queue, delivery_mode=2)
            if number % 7 == 0:
                confirms.wait()
        confirms.wait()


def made(directory: Path, state: str) -> Path:
    """Return a directory with the data of a node in a state (`left`), and with its data before the last messages
    (`earlier`).
    """
    directory.mkdir()
    options = ["store.durability=interval=20ms"] if state == "interval" else []
    broker = Broker(directory, *options, shards=2)
    try:
        fill(broker, 0, COUNT // 2)
        broker.stop()
        shutil.copytree(directory / "data", directory / "earlier")
        broker.start()
        fill(broker, COUNT // 2, COUNT - COUNT // 2)
        with Client.connect(broker.address) as client:
            assert len(bodies(client.channel(), "done")) == COUNT
            client.channel().call("queue.declare", queue="later", durable=True)
        if state == "ended":
            broker.stop()
    finally:
        broker.kill_all()
    shutil.copytree(directory / "data", directory / "left")
    return directory


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("nodes")
    return {state: made(directory / state, state) for state in STATES}


def started(directory: Path, data: Path) -> Broker | str:
    """Start a node; return it, or the line that it prints instead of starting."""
    try:
        return Broker(directory, shards=2)
    except AssertionError:
        log = (directory / "broker.log").read_text(errors="replace")
        assert log.strip(), "it says nothing"
        line = log.splitlines()[-1]
        assert str(data) in line, f"it does not say which file is damaged:\n{log[-3000:]}"
        assert len(log.splitlines()) == 1, log[-3000:]
        return line


def damaged_of(broker: Broker) -> dict[str, int]:
    """Return the number of damaged messages of each queue, according to the log."""
    counts: dict[str, int] = {}
    for line in broker.log.splitlines():
        fact = orjson.loads(line)
        if fact["event"] == "messages are damaged, they are set aside":
            counts[fact["queue"]] = counts.get(fact["queue"], 0) + fact["messages"]
            assert Path(fact["set_aside"]).exists()
    return counts


def check_served(broker: Broker) -> None:
    with Client.connect(broker.address) as client:
        found = {queue: bodies(client.channel(), queue) for queue in SIZES}
        client.channel().call("queue.declare", queue="later", durable=True, passive=True)
    damaged = damaged_of(broker)
    for queue, came in found.items():
        expected, there = [body(queue, number) for number in range(COUNT)], set(came)
        assert came == [each for each in expected if each in there], f"{queue}: wrong, twice or out of order"
        if queue != "done":  # acks have no guarantee
            assert len(came) + damaged.get(queue, 0) == len(expected), f"{queue}: lost without a word"


def course(nodes: dict[str, Path], directory: Path, seed: int) -> Harm:
    chance = random.Random(seed)
    node = nodes[chance.choice(STATES)]
    data = directory / "data"
    shutil.copytree(node / "left", data)
    done = harm(data, node / "earlier", chance)
    outcome = started(directory, data)
    if isinstance(outcome, Broker):
        try:
            check_served(outcome)
            outcome.stop()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {node.name}, {done}: {error}\n{outcome.log[-3000:]}") from None
        finally:
            outcome.kill_all()
    print(f"seed {seed}, {node.name}, {done}: {'served' if isinstance(outcome, Broker) else outcome}")
    return done


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_file(nodes: dict[str, Path], directory: Path, seed: int) -> None:
    course(nodes, directory, SEED + seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_two_hundred_damaged_files(nodes: dict[str, Path], directory: Path, seed: int) -> None:
    course(nodes, directory, SEED + seed)
