"""Whether backlogs of messages with hardly any body are paged, memory stays bounded, and other clients are unaffected.

    python -m load.whole_messages                 # all kinds
    python -m load.whole_messages tasks singles

Each kind gets a broker with `memory_limit` at its default proportion of `memory.process_limit`, a queue without limits
or consumers, and one producer that sends as fast as the broker reads. A good client beside it makes 40 round trips a
second (publish, confirm, get). Exit status 1 if memory grew over idle by more than `memory_limit` and a fifth, if a
message is missing from its queue, or if the good client reached less than 90 % of its rate.

    tasks    300,000 as Celery's: headers of 1 KB, a body of 100 bytes
    headers  12,000 with 50 KB of headers and no body
    empty    1,000,000 with neither
    singles  50,000 with neither, each sent once the one before is confirmed: a batch of its own
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from load.frames import CONFIRM_SELECT, CONFIRM_SELECT_OK, publish
from load.node import LocalNode
from load.probe import prepare
from load.processes import MIB, memory, settled_memory
from load.wire import Wire, table

PROCESS_LIMIT, MEMORY_LIMIT = 600, 240
"""MiB."""
SPARE = 1.2
QUEUE = "whole"
GOOD, GOOD_RATE, GOOD_SHARE = "whole-good", 40.0, 0.9
POLL_SECONDS = 0.25
PART = 64 * 1024
"""Approximate bytes of a write."""
SECONDS_MOST = 300.0
TASK = {"lang": "py", "task": "app.tasks.add", "id": "x" * 36, "root_id": "x" * 36, "argsrepr": "a" * 300,
        "kwargsrepr": "k" * 300, "origin": "gen@host", "stamped_headers": "s" * 100, "group": "g" * 36}  # fmt: skip


class Kind(NamedTuple):
    """The messages of one kind, all identical; `alone`: each waits for the confirm of the one before."""

    number: int
    headers: dict[str, str]
    body: bytes = b""
    alone: bool = False


KINDS = {
    "tasks": Kind(300_000, TASK, bytes(100)),
    "headers": Kind(12_000, {"h": "H" * 50_000}),
    "empty": Kind(1_000_000, {}),
    "singles": Kind(50_000, {}, alone=True),
}


def send(wire: Wire, kind: Kind) -> Iterator[None]:
    """Send all messages, yielding after each write."""
    message = publish(QUEUE, kind.body, headers=table(kind.headers) if kind.headers else b"")
    if kind.alone:
        wire.call(CONFIRM_SELECT, b"\0", CONFIRM_SELECT_OK)
        for _ in range(kind.number):
            wire.socket.sendall(message)
            wire.socket.recv(PART)
            yield
        return
    at_once = max(PART // len(message), 1)
    for first in range(0, kind.number, at_once):
        wire.socket.sendall(message * min(at_once, kind.number - first))
        yield


def depth(node: LocalNode) -> int:
    """Return the messages in the queue."""
    state = node.flow_state(QUEUE)
    return 0 if state is None else state.depth


def run(node: LocalNode, kind: Kind, seconds: float) -> dict[str, Any]:
    """Run one kind and return its figures; memory in MiB, cost in bytes a message."""
    prepare(node.target, QUEUE, {})
    idle = settled_memory(node.pid).nbytes
    url = f"amqp://{node.target.user}:{node.target.password}@{node.target.host}:{node.target.port}"
    good = subprocess.Popen(
        [sys.executable, "-m", "load.good_client", url, GOOD, str(GOOD_RATE), str(seconds)], stdout=subprocess.PIPE
    )
    wire = Wire(node.target)
    begun = sampled_at = time.monotonic()
    most = idle
    for _ in send(wire, kind):
        if time.monotonic() > sampled_at + POLL_SECONDS:
            most, sampled_at = max(most, memory(node.pid).nbytes), time.monotonic()
    until = time.monotonic() + SECONDS_MOST
    while depth(node) < kind.number and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
        most = max(most, memory(node.pid).nbytes)
    took = time.monotonic() - begun
    said, _ = good.communicate(timeout=seconds + 60)
    settled = settled_memory(node.pid).nbytes
    report = {
        "sent": kind.number,
        "in the queue": depth(node),
        "seconds": round(took, 1),
        "idle": idle // MIB,
        "most": max(most, settled) // MIB,
        "growth": (max(most, settled) - idle) // MIB,
        "settled growth": (settled - idle) // MIB,
        "bytes each, settled": (settled - idle) // kind.number,
        "good": json.loads(said or b"{}"),
    }
    wire.socket.close()
    return report


def problems(report: dict[str, Any], limit: float) -> list[str]:
    """Describe what is wrong with the figures; `limit` of the growth in MiB."""
    good = report["good"]
    return [
        *([f"memory grew by {report['growth']} MiB of {limit:.0f}"] if report["growth"] > limit else []),
        *(["messages are missing"] if report["in the queue"] != report["sent"] else []),
        *(["the good client was held"] if good.get("done", 0) < GOOD_SHARE * good.get("wanted", 1) else []),
    ]


def main(
    kinds: Annotated[list[str] | None, typer.Argument(metavar="KIND...", help="kinds to run; default: all")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="how long the good client runs")] = 30.0,
    memory_limit: Annotated[int, typer.Option(min=1, help="of the broker, in MiB")] = MEMORY_LIMIT,
) -> None:
    """Run backlogs of messages with hardly any body, each beside a good client."""
    wrong = []
    for name in kinds or KINDS:
        options = (f"memory.process_limit={PROCESS_LIMIT} MiB", f"memory_limit={memory_limit} MiB")
        settings = [part for setting in options for part in ("--set", setting)]
        with (
            tempfile.TemporaryDirectory(prefix="whole-") as directory,
            LocalNode(Path(directory), "--acceptors", "1", "--shards", "1", *settings) as node,
        ):
            report = run(node, KINDS[name], seconds)
        print(json.dumps({"kind": name, **report}), flush=True)
        wrong += [f"{name}: {problem}" for problem in problems(report, memory_limit * SPARE)]
    for problem in wrong:
        print(problem, file=sys.stderr)
    raise typer.Exit(bool(wrong))


if __name__ == "__main__":
    typer.run(main)
