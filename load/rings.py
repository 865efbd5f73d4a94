"""Whether programs that feed each other's full queues make progress, whatever client library they use.

    python -m load.rings

Each cell is a ring of programs of one kind: each program consumes a queue, publishes a message to the next program's
queue for each one that it receives, and only then acks; with confirms, once its publishes are confirmed. It works as a
single-threaded program does: while a publish waits, it does nothing else. At first each publishes more than it
consumes, so that all queues become full and stay full. Each program is a bare socket that behaves as the library does
(`load.peer`), so all differences are due to the broker. All kinds run at the same time, so other load on the machine is
the same for all.
"""

from __future__ import annotations

import selectors
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Final, NamedTuple

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
from load.peer import (
    AMQPLIB,
    BASIC_DELIVER,
    BASIC_NACK,
    CHANNEL_FLOW,
    CHANNEL_FLOW_OK,
    DOTNET,
    JAVA,
    PIKA,
    PY_AMQP,
    Kind,
    Peer,
    delivery_tag,
    settled_up_to,
    wire_of,
)
from load.probe import prepare
from load.target import Target
from load.wire import CONNECTION_CLOSE, method_frame

KINDS: Final = (JAVA, DOTNET, PIKA, PY_AMQP, AMQPLIB)
LEAST: Final = 0.5
LIMIT: Final = 200
ARGUMENTS: Final[dict[str, object]] = {"x-max-length": LIMIT, "x-overflow": "flow"}
SEEDS, SURPLUS, PREFETCH, BATCH, SIZE = 10, 2 * LIMIT, 20, 10, 1000
"""Messages a program begins with; messages it publishes beyond one for each received; its prefetch; messages it handles
at a time; and bytes of each message.
"""
POLL_SECONDS = 0.05


class Cell(NamedTuple):
    """A ring: its programs, their kind, connections of each program, and whether it uses confirms."""

    programs: int
    kind: Kind
    connections: int
    confirms: bool

    @property
    def group(self) -> tuple[int, int, bool]:
        """The properties shared with the cells of other kinds that it is compared with."""
        return self.programs, self.connections, self.confirms

    def __str__(self) -> str:
        confirms = "confirms" if self.confirms else "no confirms"
        return f"{self.programs} programs as {self.kind.name}, {self.connections} connections, {confirms}"


class Result(NamedTuple):
    """The result of a cell: messages that each program acked, in all and in the last quarter of the time; the longest
    time, in seconds, in which no program acked anything; why the ring ended early, if it did.
    """

    cell: Cell
    done: list[int]
    recent: list[int]
    seconds: float
    still: float
    lost: str = ""

    @property
    def rate(self) -> float:
        """Messages acked a second, of all programs together."""
        return sum(self.done) / self.seconds

    @property
    def progresses(self) -> bool:
        """Whether every program still made progress at the end."""
        return not self.lost and all(self.recent)


class Program:
    """One program of a ring, with one connection, or two: one to consume and one to publish."""

    def __init__(self, target: Target, cell: Cell, source: str, destination: str, surplus: int) -> None:
        self.kind = cell.kind
        wire = wire_of(target, cell.kind)
        publishing = wire if cell.connections == 1 else wire_of(target, cell.kind)
        if cell.confirms:
            publishing.call(CONFIRM_SELECT, b"\0", CONFIRM_SELECT_OK)
        wire.call(BASIC_QOS, qos(PREFETCH), BASIC_QOS_OK)
        wire.call(BASIC_CONSUME, consume(source, True), BASIC_CONSUME_OK)
        self.consumer = Peer(wire)
        self.publisher = self.consumer if publishing is wire else Peer(publishing)
        self.peers = [self.consumer] if publishing is wire else [self.consumer, self.publisher]
        self.message = publish(destination, bytes(SIZE))
        self.unconfirmed = ConfirmWindow() if cell.confirms else None
        self.stopped = False
        self.to_publish, self.surplus = SEEDS, surplus
        self.delivered = self.handled = self.acked = 0

    @property
    def waits(self) -> bool:
        """Whether a write waits for its socket."""
        return not self.kind.buffers and any(peer.pending for peer in self.peers)

    def read(self, peer: Peer) -> None:
        """Process what has arrived, unless the kind does not read while a write waits. ConnectionError if the
        connection is lost.
        """
        if self.waits and not self.kind.reads_blocked:
            return
        for method, arguments in peer.methods():
            if method == BASIC_DELIVER:
                self.delivered = delivery_tag(arguments)
            elif method in (BASIC_ACK, BASIC_NACK):
                assert self.unconfirmed is not None
                settled = self.unconfirmed.settle(*settled_up_to(arguments))
                if method == BASIC_NACK:
                    self.to_publish += sum(end - first for first, end in settled)
            elif method == CHANNEL_FLOW:
                self.on_channel_flow(peer, arguments)
            elif method == CONNECTION_CLOSE:
                raise ConnectionAbortedError(f"closed with {int.from_bytes(arguments[:2], 'big')}")

    def on_channel_flow(self, peer: Peer, arguments: bytes) -> None:
        """React to Channel.Flow."""
        if self.kind.breaks_on_flow:
            raise ConnectionAbortedError("Channel.Flow, which it does not expect")
        if self.kind.answers_flow:
            peer.send(method_frame(1, CHANNEL_FLOW_OK, arguments[:1]))
        if self.kind.honours_flow and peer is self.publisher:
            self.stopped = not arguments[0]

    def work(self) -> None:
        """Work until there is nothing to do but wait. OSError if a connection is lost."""
        for peer in self.peers:
            if peer.pending:
                peer.send()
        while not self.waits and self.step():
            pass

    def step(self) -> bool:
        """Publish, else ack, else begin the next messages received; return whether there was anything to do."""
        if self.to_publish:
            if self.stopped:
                return False
            self.publisher.send(self.message * self.to_publish)
            if self.unconfirmed is not None:
                for _ in range(self.to_publish):
                    self.unconfirmed.publish()
            self.to_publish = 0
        elif self.unconfirmed is not None and len(self.unconfirmed):
            return False
        elif self.handled > self.acked:
            self.consumer.send(ack_up_to(self.handled))
            self.acked = self.handled
        elif self.delivered > self.handled:
            count = min(self.delivered - self.handled, BATCH)
            more = min(self.surplus, count)
            self.handled += count
            self.surplus -= more
            self.to_publish = count + more
        else:
            return False
        return True


def ring(target: Target, cell: Cell, name: str, surplus: int = SURPLUS) -> list[Program]:
    """Open the programs of a cell, on queues with names that begin with `name`."""
    queues = [f"{name}-{at}" for at in range(cell.programs)]
    for queue in queues:
        prepare(target, queue, ARGUMENTS)
    pairs = zip(queues, queues[1:] + queues[:1], strict=True)
    return [Program(target, cell, source, destination, surplus) for source, destination in pairs]


def turn(programs: Sequence[Program], selector: selectors.BaseSelector) -> None:
    """Let all programs read and write once. OSError if a connection is lost."""
    for program in programs:
        program.work()
        for peer in program.peers:
            deaf = program.waits and not program.kind.reads_blocked
            events = (0 if deaf else selectors.EVENT_READ) | (selectors.EVENT_WRITE if peer.pending else 0)
            if peer.socket in selector.get_map():
                selector.modify(peer.socket, events or selectors.EVENT_WRITE, (program, peer))
            else:
                selector.register(peer.socket, events or selectors.EVENT_WRITE, (program, peer))
    for key, events in selector.select(POLL_SECONDS):
        if events & selectors.EVENT_READ:
            program, peer = key.data
            program.read(peer)


def close(programs: Sequence[Program]) -> None:
    """Close the connections of the programs."""
    for program in programs:
        for peer in program.peers:
            peer.socket.close()


def run(target: Target, seconds: float, cell: Cell) -> Result:
    """Run a cell on a broker for `seconds`."""
    programs, lost = ring(target, cell, f"ring of {cell}"), ""
    began = now = moved = time.monotonic()
    late: list[int] = []
    done, still = 0, 0.0
    try:
        with selectors.DefaultSelector() as selector:
            while now < began + seconds:
                turn(programs, selector)
                now = time.monotonic()
                before, done = done, sum(program.acked for program in programs)
                still = max(still, now - moved)
                if done > before:
                    moved = now
                if not late and now >= began + 0.75 * seconds:
                    late = [program.acked for program in programs]
    except OSError as error:
        lost = f"after {time.monotonic() - began:.1f} s: {error.strerror or error}"
    finally:
        close(programs)
    acked = [program.acked for program in programs]
    recent = [one - was for one, was in zip(acked, late or acked, strict=True)]
    return Result(cell, acked, recent, seconds, still, lost)


def shares(results: Sequence[Result]) -> list[float]:
    """Return each cell's rate as a share of the fastest kind's rate in the same ring."""
    fastest: dict[tuple[int, int, bool], float] = {}
    for result in results:
        fastest[result.cell.group] = max(fastest.get(result.cell.group, 0.0), result.rate)
    return [result.rate / (fastest[result.cell.group] or 1.0) for result in results]


def problems(results: Sequence[Result]) -> list[str]:
    """Describe the cells that stand still or are too slow."""
    found = []
    for result, share in zip(results, shares(results), strict=True):
        if not result.progresses:
            found.append(f"{result.cell}: {result.lost or 'stands still'}")
        elif share < LEAST:
            found.append(f"{result.cell}: {share:.2f} of the fastest kind, wanted {LEAST}")
    return found


def table(results: Sequence[Result]) -> str:
    """Format a line for each cell."""
    left = f"{'programs':>8} {'connections':>11} {'confirms':<8} {'kind':<8}"
    lines = [f"{left} {'messages/s':>10} {'share':>6} {'still':>6}  goes on"]
    for result, share in zip(results, shares(results), strict=True):
        cell = result.cell
        lines.append(
            f"{cell.programs:>8} {cell.connections:>11} {'yes' if cell.confirms else 'no':<8} {cell.kind.name:<8}"
            f" {result.rate:>10.0f} {share:>6.2f} {result.still:>4.2f} s"
            f"  {result.lost or ('yes' if result.progresses else 'no')}"
        )
    return "\n".join(lines)


def main(
    seconds: Annotated[float, typer.Option(min=0.1, help="how long each ring is measured")] = 20.0,
    kind: Annotated[list[str] | None, typer.Option(help="kinds of client; default: all")] = None,
    programs: Annotated[list[int] | None, typer.Option(help="sizes of rings; default: 2 and 3")] = None,
    connections: Annotated[list[int] | None, typer.Option(help="of each program; default: 1 and 2")] = None,
    confirms: Annotated[bool | None, typer.Option(help="only with or only without; default: both")] = None,
) -> None:
    """Run rings of programs whose queues are all full, as each client library, on a broker started for it."""
    kinds = [each for each in KINDS if not kind or each.name in kind]
    choices = [confirms] if confirms is not None else [False, True]
    results = []
    with tempfile.TemporaryDirectory(prefix="rings-") as directory, LocalNode(Path(directory)) as node:
        for size, number, confirmed in product(programs or (2, 3), connections or (1, 2), choices):
            cells = [Cell(size, each, number, confirmed) for each in kinds]
            with ThreadPoolExecutor(len(cells)) as pool:
                group = list(pool.map(partial(run, node.target, seconds), cells))
            print(table(group), flush=True)
            results += group
    found = problems(results)
    for text in found:
        print(text)
    raise typer.Exit(bool(found))


if __name__ == "__main__":
    typer.run(main)
