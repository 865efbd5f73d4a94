"""Where the time of a lone message goes, stage by stage, beside the least that it costs: `python -m load.where`.

    python -m load.where
    python -m load.where --peer amqp://127.0.0.1:5699 --peer-pid 1234

The floor is a relay in C (`relay.c`) whose two processes do nothing but read and write, on the way that a message takes
through an acceptor and a shard. The kernel records the system calls of all processes (`load.ftrace`), and `load.stages`
finds the way of each message in them; recording makes each call dearer, the floor's as well. Processor time is measured
without a recording. The clients are those of `load.pump`, and all brokers get the same bytes at the same rate, in turn.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from socket import create_connection, socket
from typing import Annotated, NamedTuple

import typer

from load import ftrace, wire
from load.compiled import compiled
from load.latency import WARM_SECONDS
from load.node import LocalNode
from load.processes import family, kill
from load.pump import Pump, count_for, encode_burst, pumps, start
from load.stages import CONSUMER, PRODUCER, Stage, Way, way
from load.target import Target
from load.throughput import Shape, burst_of, prepared

FLOOR, PENSTOCK, PEER = "floor", "penstock", "peer"
SHAPE = Shape(size=256, burst=1)
ROLES = {"pstk-acceptor": "acceptor", "pstk-shard": "shard"}


class Course(NamedTuple):
    """Lone messages under way: both clients, and the broker's processes on the way, by process id."""

    producer: Pump
    consumer: Pump
    processes: Mapping[int, str]


Begin = Callable[[float], AbstractContextManager[Course]]
"""Begins a course at a rate in messages a second."""


@dataclass(slots=True)
class Found:
    """The findings for one broker: the way in each recording, and the cost of a message by process."""

    ways: list[Way] = field(default_factory=list)
    micros: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    calls: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    sleeps: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


@contextmanager
def through_relay(rate: float) -> Iterator[Course]:
    """Send lone messages through the relay."""
    message = burst_of(SHAPE, 0)
    stamp = str(SHAPE.size + 1)
    with subprocess.Popen([compiled("relay")], stdout=subprocess.PIPE) as relay, ExitStack() as stack:
        stack.callback(kill, relay)
        assert relay.stdout is not None
        target = Target(port=int(relay.stdout.readline()))
        opener = partial(connect, target)
        consumer = start(stack, target, ["consume", str(len(message)), "0", stamp], [opener])
        producer = start(stack, target, ["produce", str(rate), stamp], [opener], encode_burst(message, 1))
        first, second = family(relay.pid)
        yield Course(producer, consumer, {first.pid: "acceptor", second.pid: "shard"})


def connect(target: Target, _: socket | None) -> socket:
    """Connect to a relay."""
    return create_connection((target.host, target.port))


@contextmanager
def through_broker(target: Target, pid: int, rate: float) -> Iterator[Course]:
    """Send lone messages through a broker. Processes of it that are no acceptor or shard of penstock's are one."""
    with prepared(target, SHAPE), pumps(target, SHAPE, rate) as (producer, consumer):
        assert consumer is not None
        named = {each.pid: each.name().rpartition("-")[0] for each in family(pid)}
        is_penstock = any(name in ROLES for name in named.values())
        on_the_way = {each: ROLES.get(name, "") if is_penstock else "broker" for each, name in named.items()}
        yield Course(producer, consumer, {each: role for each, role in on_the_way.items() if role})


def threads_of(pid: int) -> list[int]:
    """Return the threads of a process."""
    return [int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()]


def run_micros(pid: int) -> float:
    """Return the time that the threads of a process have run, in microseconds (proc(5), schedstat)."""
    times = (Path(f"/proc/{pid}/task/{each}/schedstat").read_text().split()[0] for each in threads_of(pid))
    return sum(map(int, times)) / 1000


def record(course: Course, seconds: float, found: Found) -> None:
    """Record messages for some seconds."""
    processes = {course.producer.pid: PRODUCER, course.consumer.pid: CONSUMER, **course.processes}
    threads = {thread: name for pid, name in processes.items() for thread in threads_of(pid)}
    with ftrace.recording(threads) as recording:
        count_for(course.consumer, seconds)
        calls, sleeps = ftrace.parse(recording.end())
    its = way(calls, threads)
    found.ways.append(its)
    messages = len(its.whole) / its.share
    of_calls = Counter(threads[call.thread] for call in calls if call.thread in threads)
    of_sleeps = Counter(threads[sleep.thread] for sleep in sleeps if sleep.thread in threads)
    for name in set(course.processes.values()):
        found.calls[name].append(of_calls[name] / messages)
        found.sleeps[name].append(of_sleeps[name] / messages)


def account(course: Course, seconds: float, found: Found) -> None:
    """Measure the processor time of messages for some seconds."""
    before = {pid: run_micros(pid) for pid in course.processes}
    (_, first), (_, last) = count_for(course.consumer, seconds)
    spent: Counter[str] = Counter()
    for pid, name in course.processes.items():
        spent[name] += int(run_micros(pid) - before[pid])
    for name, micros in spent.items():
        found.micros[name].append(micros / max(last - first, 1))


def measure(begin: Begin, rate: float, seconds: float, found: Found) -> None:
    """Measure one broker once."""
    with begin(rate) as course:
        count_for(course.consumer, WARM_SECONDS)
        account(course, seconds, found)
        record(course, seconds, found)


def p50_and_p99(samples: Sequence[float]) -> tuple[float, float]:
    """Return both percentiles."""
    percentiles = statistics.quantiles(samples, n=100)
    return percentiles[49], percentiles[98]


def joined(ways: Sequence[Way]) -> dict[str, list[int]]:
    """Join the microseconds of several recordings, by stage and for the whole way. Those of another way than the first
    one are left out.
    """
    stages = list(ways[0].stages)
    same = [each for each in ways if list(each.stages) == stages]
    times = {title(stage, stages): [took for each in same for took in each.stages[stage]] for stage in stages}
    return {**times, "whole": [took for each in same for took in each.whole]}


def title(stage: Stage, stages: Sequence[Stage]) -> str:
    """Name a stage; a second visit to a process is called so."""
    visits = sorted({each.visit for each in stages if each.process == stage.process})
    again = " again" if visits.index(stage.visit) else ""
    return f"{stage.process}{again} {stage.does}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table in Markdown whose first column has text."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    lines.insert(1, "| --- |" + " ---: |" * (len(header) - 1))
    return "\n".join(lines)


def of_stages(all_found: Mapping[str, Found]) -> str:
    """Format the stages of the floor and of penstock, and how much further penstock is in each."""
    floor, penstock = (joined(all_found[name].ways) for name in (FLOOR, PENSTOCK))
    rows = []
    for name, samples in penstock.items():
        p50, p99 = p50_and_p99(samples)
        least, least99 = p50_and_p99(floor[name]) if name in floor else (0.0, 0.0)
        rows.append([name, *(f"{each:.0f}" for each in (least, least99, p50, p99)), f"{p50 - least:+.0f}"])
    return table(("stage", "floor p50", "p99", "penstock p50", "p99", "beyond the floor"), rows)


def of_peer(found: Found) -> str:
    """Format the stages of another broker."""
    rows = [[name, *(f"{each:.0f}" for each in p50_and_p99(samples))] for name, samples in joined(found.ways).items()]
    return table(("stage", "peer p50", "p99"), rows)


def of_costs(all_found: Mapping[str, Found]) -> str:
    """Format what a message costs each process."""
    rows = []
    for broker, found in all_found.items():
        for name in sorted(found.micros):
            columns = found.micros[name], found.calls[name], found.sleeps[name]
            rows.append([f"{broker}: {name}", *(f"{statistics.median(each):.1f}" for each in columns)])
        if len(found.micros) > 1:
            sums = (sum(map(statistics.median, each.values())) for each in (found.micros, found.calls, found.sleeps))
            rows.append([f"{broker}: all", *(f"{each:.1f}" for each in sums)])
    return table(("a message costs", "processor µs", "system calls", "waits"), rows)


def main(
    peer: Annotated[str | None, typer.Option(help="AMQP URL of another broker, measured in turn")] = None,
    peer_pid: Annotated[int | None, typer.Option(help="its parent process")] = None,
    rate: Annotated[float, typer.Option(min=1, help="messages a second")] = 500,
    runs: Annotated[int, typer.Option(min=1, help="runs of each broker")] = 3,
    seconds: Annotated[float, typer.Option(min=0.5, help="length of each of the two parts of a run")] = 3.0,
) -> None:
    """Show where the time of a lone message goes: microseconds of each stage, processor time, system calls, waits."""
    try:
        with tempfile.TemporaryDirectory(prefix="where-") as directory, LocalNode(Path(directory)) as node:
            begins: dict[str, Begin] = {FLOOR: through_relay, PENSTOCK: partial(through_broker, node.target, node.pid)}
            if peer is not None:
                if peer_pid is None:
                    raise ValueError("--peer needs --peer-pid")
                target = Target.parse(peer)
                wire.check(target)
                begins[PEER] = partial(through_broker, target, peer_pid)
            all_found = {name: Found() for name in begins}
            for _ in range(runs):
                for name, begin in begins.items():
                    measure(begin, rate, seconds, all_found[name])
    except (ValueError, OSError, EOFError) as error:
        typer.echo(f"where: {error}", err=True)
        raise typer.Exit(2) from None
    shares = ", ".join(f"{name} {min(each.share for each in found.ways):.0%}" for name, found in all_found.items())
    parts = [of_stages(all_found), *([of_peer(all_found[PEER])] if PEER in all_found else []), of_costs(all_found)]
    typer.echo("\n\n".join(["Microseconds.", *parts, f"Messages that took these ways: {shares}."]))


if __name__ == "__main__":
    typer.run(main)
