"""How long clients wait while a queue moves from one shard to another.

    python -m load.move_pause

A broker with two shards is started. A queue, empty or with a backlog, is moved back and forth while a producer
publishes one persistent message after the other and waits for each confirm. For each size: how long the queue paused,
as the node reports it; the producer's longest wait for a confirm during a move; and its median wait.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from load.frames import CONFIRM_SELECT, CONFIRM_SELECT_OK, publish
from load.node import POINTER_FILE, LocalNode
from load.probe import prepare
from load.target import Target
from load.wire import Wire
from penstock.control import control
from penstock.node.node import Node

BURST = 500
SHARDS = 2
SETTLE_SECONDS = 0.1
EMPTY = {"x-message-ttl": 0}
"""Arguments of a queue whose messages expire at once."""


class Producer(threading.Thread):
    """Publishes and waits for the confirm, over and over. `longest` is the longest wait since it was reset, in seconds;
    `waits` has all completed ones.
    """

    def __init__(self, target: Target, queue: str, body: int) -> None:
        super().__init__(daemon=True)
        self.nbytes = publish(queue, bytes(body), persistent=True)
        self.wire = Wire(target)
        self.wire.call(CONFIRM_SELECT, b"\0", CONFIRM_SELECT_OK)
        self.ending = threading.Event()
        self.longest = 0.0
        self.waits: list[float] = []

    def run(self) -> None:
        """Publish until `ending` is set."""
        while not self.ending.is_set():
            began = time.perf_counter()
            self.wire.socket.sendall(self.nbytes)
            self.wire.socket.recv(65536)
            wait = time.perf_counter() - began
            self.longest = max(self.longest, wait)
            self.waits.append(wait)
        self.wire.socket.close()


def fill(node: LocalNode, queue: str, count: int, body: int) -> None:
    """Publish a backlog, and wait until the queue has it."""
    wire = Wire(node.target)
    nbytes = publish(queue, bytes(body), BURST, persistent=True)
    for _ in range(count // BURST):
        wire.socket.sendall(nbytes)
    while (state := node.flow_state(queue)) is None or state.depth < count // BURST * BURST:
        time.sleep(SETTLE_SECONDS)
    wire.close()


def move(data: Path, queue: str, shard: int) -> dict[str, Any]:
    """Move a queue and return the node's answer."""
    runtime = Path(json.loads((data / POINTER_FILE).read_text())["runtime"])
    arguments = {"vhost": "/", "name": queue, "shard": shard, "placement_version": None, "plan": None}
    result: dict[str, Any] = control.call(Node.load(runtime).control, "queue_move", arguments)
    return result


def pauses(node: LocalNode, count: int, body: int, rounds: int) -> dict[str, Any]:
    """Move a queue with a backlog `rounds` times; the figures are in milliseconds."""
    queue = f"moved-{count}"
    prepare(node.target, queue, {} if count else EMPTY)
    fill(node, queue, count, body)
    producer = Producer(node.target, queue, body)
    producer.start()
    held: list[float] = []
    waited: list[float] = []
    messages = 0
    shard = 0
    while len(held) < rounds:
        time.sleep(SETTLE_SECONDS)
        producer.longest = 0.0
        result = move(node.data, queue, shard % SHARDS)
        shard += 1
        if result["result"] == "already-there":
            continue
        if result["result"] != "moved":
            raise RuntimeError(f"not moved: {result}")
        time.sleep(SETTLE_SECONDS)
        over = len(producer.waits)
        while len(producer.waits) == over and producer.is_alive():  # count the wait in progress too
            time.sleep(SETTLE_SECONDS)
        held.append(result["pause_ms"])
        waited.append(producer.longest * 1000)
        messages = result["messages"]
    producer.ending.set()
    producer.join()
    return {
        "messages": messages,
        "body": body,
        "moves": rounds,
        **spread("held", held),
        **spread("longest_confirm", waited),
        "median_confirm_ms": round(statistics.median(producer.waits) * 1000, 2),
    }


def spread(name: str, found: list[float]) -> dict[str, float]:
    """Return median and maximum in milliseconds."""
    return {f"{name}_median_ms": round(statistics.median(found), 1), f"{name}_max_ms": round(max(found), 1)}


def main(
    rounds: Annotated[int, typer.Option(min=1, help="moves of each queue")] = 10,
    backlog: Annotated[int, typer.Option(min=BURST, help="messages in the queue with a backlog")] = 100_000,
    body: Annotated[int, typer.Option(min=1, help="bytes of a body")] = 256,
) -> None:
    """Print how long clients wait for a queue that moves."""
    options = "--shards", str(SHARDS), "--acceptors", "2"
    with (
        tempfile.TemporaryDirectory(prefix="penstock-move-") as directory,
        LocalNode(Path(directory), *options) as node,
    ):
        print("empty", pauses(node, 0, body, rounds), flush=True)
        print("backlog", pauses(node, backlog, body, rounds), flush=True)


if __name__ == "__main__":
    typer.run(main)
