"""A queue read by a Spark stream that is killed on the way: losses, duplicates and throughput.

    python -m load.spark_source --messages 1000000 --kills 2 --leases 0 2
    python -m load.spark_source --messages 1000000 --kills 0 --leases 2 --executors 1 2
    python -m load.spark_source --messages 300000 --kills 0 --leases 2 --executors 1 2 --service-ms 100

A broker is started, one of its queues is filled, and a stream writes the messages to files. Spark's driver and all its
descendants are killed (SIGKILL) `--kills` times, evenly spread over the messages, and the query is restarted from its
checkpoint; the last run ends by itself. Each number of leases gives a row of a table in Markdown; 0 is a stream without
leases. With `--executors` there is a row for each number of executors, of one core, in a standalone cluster on
loopback. With `--service-ms` the query has work to do: for each thousand messages a task waits that long for a service.

The rate counts messages that the broker knows to be processed while a query is at work, without Spark's own start. Exit
status 1 if a message was lost, or more messages came twice than may.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from load import frames
from load.node import LocalNode
from load.probe import prepare
from load.processes import kill
from load.spark_cluster import cluster
from load.wire import Wire

BODY = 256
BURST = 1000
POLL_SECONDS = 0.02
RUN_SECONDS = 3600.0
ROOT = str(Path(__file__).resolve().parents[1])
NEVER_HELD = {"x-flow": "off"}
HEAD = "| leases | where | messages | killed | lost | twice | left in the queue | messages/s |"
RULE = "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one queue, in messages. `processed` messages were handled in `seconds`."""

    count: int
    kills: int
    lost: int
    twice: int
    left: int
    processed: int
    seconds: float

    @property
    def rate(self) -> float:
        """Messages processed a second."""
        return self.processed / self.seconds if self.seconds else 0.0


class Progress:
    """The rate at which a queue's depth changes, by polling: from the first change of a run to the last."""

    def __init__(self, node: LocalNode, queue: str) -> None:
        self._node = node
        self._queue = queue
        self.moved = 0
        self.seconds = 0.0
        self.begin()

    @property
    def depth(self) -> int:
        """Messages ready or unacked."""
        state = self._node.flow_state(self._queue)
        return 0 if state is None else state.depth

    def begin(self) -> None:
        """Begin a run; its time counts from the first change of depth."""
        self._first: tuple[float, int] | None = None
        self._last = (time.monotonic(), self.depth)

    def poll(self) -> int:
        """Poll and return the depth."""
        now, depth = time.monotonic(), self.depth
        if depth != self._last[1]:
            if self._first is None:
                self._first = (now, depth)
            self._last = (now, depth)
        return depth

    def end(self) -> None:
        """End the run and add it to the totals."""
        if self._first is not None:
            self.moved += abs(self._last[1] - self._first[1])
            self.seconds += self._last[0] - self._first[0]


@contextmanager
def query(directory: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `load.spark_query`, and kill its process tree at the end if it still runs. Its log is in the directory."""
    with (directory / "query.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "load.spark_query", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    try:
        yield process
    finally:
        kill(process)
        assert process.stdout is not None
        process.stdout.close()


def fill(node: LocalNode, queue: str, count: int) -> None:
    """Publish numbered persistent messages to a durable queue without flow control."""
    prepare(node.target, queue, NEVER_HELD)
    wire = Wire(node.target)
    for first in range(0, count, BURST):
        bodies = (b"%d " % number for number in range(first, min(first + BURST, count)))
        wire.socket.sendall(b"".join(frames.publish(queue, body.ljust(BODY, b"x"), persistent=True) for body in bodies))
    progress = Progress(node, queue)
    while progress.depth < count:
        time.sleep(POLL_SECONDS)
    wire.close()


def read_by_stream(
    node: LocalNode, queue: str, directory: Path, master: str, count: int, kills: int, **options: int
) -> Outcome:
    """Let a stream read the queue, killed `kills` times. RuntimeError with the end of its log if it fails."""
    given = {"url": url(node), "queue": queue, **options}
    command = (str(directory), master, *(f"{name}={value}" for name, value in given.items()))
    progress = Progress(node, queue)
    for left in range(kills, 0, -1):
        with query(directory, "read", *command) as process:
            watch(process, directory, progress, count * left // (kills + 1))
    with query(directory, "drain", *command) as process:
        watch(process, directory, progress, 0)
        found = answer(process, directory)
    whole = (found["least"], found["greatest"]) == (0, count - 1)
    return Outcome(
        count=count,
        kills=kills,
        lost=count - found["numbers"] if whole else count,
        twice=found["rows"] - found["numbers"],
        left=progress.depth,
        processed=progress.moved,
        seconds=progress.seconds,
    )


def write_by_sink(node: LocalNode, queue: str, directory: Path, master: str, count: int) -> float:
    """Let a sink write `count` messages; return messages a second."""
    prepare(node.target, queue, NEVER_HELD)
    progress = Progress(node, queue)
    options = (f"url={url(node)}", f"routingKey={queue}")
    with query(directory, "write", str(directory), master, str(count), *options) as process:
        while process.poll() is None:
            progress.poll()
            time.sleep(POLL_SECONDS)
        progress.end()
        answer(process, directory)
    if progress.poll() != count:
        raise RuntimeError(f"{progress.depth} messages in the queue, not {count}")
    return progress.moved / progress.seconds if progress.seconds else 0.0


def watch(process: subprocess.Popen[bytes], directory: Path, progress: Progress, goal: int) -> None:
    """Wait until at most `goal` messages are left. RuntimeError if the query ends before that."""
    progress.begin()
    deadline = time.monotonic() + RUN_SECONDS
    while progress.poll() > goal:
        if (process.poll() is not None and progress.poll() > goal) or time.monotonic() > deadline:
            raise RuntimeError(f"{progress.depth} messages are left, not {goal}:\n{last_words(directory)}")
        time.sleep(POLL_SECONDS)
    progress.end()


def answer(process: subprocess.Popen[bytes], directory: Path) -> dict[str, int]:
    """Wait for a query's end and return the JSON it prints, if any. RuntimeError if it failed."""
    said, _ = process.communicate(timeout=RUN_SECONDS)
    if process.returncode:
        raise RuntimeError(last_words(directory))
    found: dict[str, int] = json.loads(said or b"{}")
    return found


def last_words(directory: Path) -> str:
    """Return the end of the query's log."""
    return (directory / "query.log").read_text(errors="replace")[-5000:]


def url(node: LocalNode) -> str:
    """Return the node's AMQP URL."""
    return f"amqp://guest:guest@{node.target}/%2F"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=100_000, help="messages for each row")
    parser.add_argument("--kills", type=int, default=2, help="how often the driver is killed")
    parser.add_argument("--leases", type=int, nargs="+", default=[0, 2], help="numbers of leases, a row for each")
    parser.add_argument("--rows", type=int, default=30_000, help="most messages of a micro-batch")
    parser.add_argument("--master", default="local[2]", help="Spark's master, where the query runs")
    parser.add_argument("--executors", type=int, nargs="+", default=[], help="sizes of clusters, a row for each")
    parser.add_argument("--service-ms", type=int, default=0, help="time a service takes for each thousand messages")
    parser.add_argument("--sink", type=int, default=0, metavar="MESSAGES", help="messages the sink writes at the end")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="penstock-source-") as name, LocalNode(Path(name)) as node:
        directory = Path(name)
        print(HEAD, RULE, sep="\n", flush=True)
        rows = [
            measure_row(node, directory, leases, executors, options)
            for leases in options.leases
            for executors in options.executors or [0]
        ]
        if options.sink:
            own = directory / "sink"
            own.mkdir()
            rate = write_by_sink(node, "sink", own, options.master, options.sink)
            print(f"sink: {options.sink:,} messages, {rate:,.0f} messages/s")
    return 0 if all(rows) else 1


def measure_row(node: LocalNode, directory: Path, leases: int, executors: int, options: argparse.Namespace) -> bool:
    """Measure and print a row; return whether it is sound. Without executors the query runs at `--master`."""
    queue = f"source-{leases}-{executors}"
    own = directory / queue
    own.mkdir()
    fill(node, queue, options.messages)
    with place(own, executors, options.master) as (name, master):
        given = {"leases": leases, "maxRows": options.rows, "service": options.service_ms}
        found = read_by_stream(node, queue, own, master, options.messages, options.kills, **given)
    numbers = (found.count, found.kills, found.lost, found.twice, found.left, round(found.rate))
    print(f"| {leases} | {name} | {' | '.join(f'{number:,}' for number in numbers)} |", flush=True)
    return sound(found, leases, options.rows)


@contextmanager
def place(directory: Path, executors: int, master: str) -> Iterator[tuple[str, str]]:
    """Yield where a query runs: its name in the table, and the address of Spark's master."""
    if not executors:
        yield master, master
        return
    with cluster(directory, executors, ROOT) as (address, _):
        yield f"{executors} executor{'s' * (executors > 1)}", address


def sound(found: Outcome, leases: int, rows: int) -> bool:
    """Whether no message is lost or left, and no more came twice than may: a batch for each kill, none with leases."""
    return not found.lost and not found.left and found.twice <= (0 if leases else found.kills * rows)


if __name__ == "__main__":
    sys.exit(main())
