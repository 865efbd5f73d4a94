"""The cost of telemetry: processor time and memory of the recording process, and bytes on the disk.

    python -m load.telemetry_cost

A node with many queues is started. At first they are idle; then some of them get messages all the time; then all of
them have messages and are idle.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from load.frames import publish
from load.node import LocalNode
from load.processes import MIB, family
from load.session import Session
from load.wire import Wire
from penstock.process.process import process_name

BODY = bytes(256)
MESSAGES_A_SECOND = 2
"""Messages a second for each busy queue: more than one in each second that the recorder samples."""
SETTLE_SECONDS = 3.0


def recorder(pid: int) -> psutil.Process:
    """Return the node's recording process. ValueError if it has none."""
    for process in family(pid):
        if process.name() == process_name("console", 0):
            return process
    raise ValueError("the node records no telemetry: telemetry.enabled is false")


def written_bytes(directory: Path) -> int:
    """Return the bytes of all telemetry files, finished or not."""
    total = 0
    for path in (directory / "data" / "telemetry").rglob("*.zst"):
        with suppress(FileNotFoundError):  # the recorder has just renamed the file
            total += path.stat().st_size
    return total


class Queues:
    """The queues of the measurement, and the connection that publishes to them."""

    def __init__(self, node: LocalNode, count: int) -> None:
        self.names = [f"telemetry-{number}" for number in range(count)]
        session = Session(node.target, "load setup")
        for name in self.names:
            session.channel.queue_declare(name)
        session.close()
        self.wire = Wire(node.target)

    def publish(self, count: int) -> None:
        """Publish one message to each of the first `count` queues."""
        self.wire.socket.sendall(b"".join(publish(name, BODY) for name in self.names[:count]))

    def close(self) -> None:
        """Close the connection."""
        self.wire.socket.close()


def cost(node: LocalNode, directory: Path, queues: Queues, busy: int, seconds: float) -> dict[str, Any]:
    """Measure while `busy` queues get messages: percent of a core and MiB that the recorder uses, and bytes that it
    writes.
    """
    process = recorder(node.pid)
    before, nbytes, began = process.cpu_times(), written_bytes(directory), time.monotonic()
    for turn in itertools.count(1):
        if busy:
            queues.publish(busy)
        due = began + turn / MESSAGES_A_SECOND
        if due > began + seconds:
            break
        time.sleep(max(due - time.monotonic(), 0))
    took, after = time.monotonic() - began, process.cpu_times()
    spent = after.user + after.system - before.user - before.system
    rate = (written_bytes(directory) - nbytes) / took
    return {
        "queues": len(queues.names),
        "busy": busy,
        "cpu_percent": round(100 * spent / took, 2),
        "pss_mib": round(process.memory_full_info().pss / MIB, 1),
        "bytes_per_second": round(rate),
        "mib_per_day": round(rate * 86400 / MIB),
    }


def main(
    queues: Annotated[int, typer.Option(min=1, help="queues of the node")] = 2000,
    busy: Annotated[int, typer.Option(min=1, help="queues that get messages")] = 200,
    seconds: Annotated[float, typer.Option(min=1, help="length of each measurement")] = 60,
) -> None:
    """Print the cost of telemetry."""
    with tempfile.TemporaryDirectory(prefix="penstock-cost-") as name, LocalNode(Path(name)) as node:
        directory = Path(name)
        some = Queues(node, queues)
        try:
            time.sleep(SETTLE_SECONDS)
            print("idle", cost(node, directory, some, 0, seconds), flush=True)
            print("busy", cost(node, directory, some, busy, seconds), flush=True)
            some.publish(queues)
            time.sleep(SETTLE_SECONDS)
            print("standing", cost(node, directory, some, 0, seconds), flush=True)
        finally:
            some.close()


if __name__ == "__main__":
    typer.run(main)
