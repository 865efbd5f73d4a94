"""The console process: clock, files, sockets and signals around the recorder and the HTTP interface. AMQP clients are
served without it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import zmq

from console.recorder import Recorder, Usage
from penstock.bus.endpoint import subscribe
from penstock.bus.process_messages import ProcessMessage
from penstock.bus.router_client import RouterClient
from penstock.memory.gauges import Gauges
from penstock.node import clock, collector, logs
from penstock.node.clock import now_us
from penstock.node.node import Node
from penstock.process import process
from penstock.process.pulse import Pulse, Work
from penstock.telemetry.schema import Table
from penstock.telemetry.sweep import sweep
from penstock.telemetry.writer import Writer
from penstock.tls.errors import TlsError
from router.model.topology import Topology

if TYPE_CHECKING:
    from console.interface import Interface
    from console.tracing.export import SpanExport

log = logs.get_logger()

RECORD_SECONDS = 1.0
SWEEP_SECONDS = 300.0
"""Between sweeps of the files of dead writers and of files beyond the limit; sooner when a process dies."""
SETTLE_SECONDS = 1.0
NICENESS = 10
"""On a busy machine the processes that serve AMQP come first: to these 10 the kernel gives a ninth of their time."""


class Console:
    """One incarnation of the console."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, node: Node, index: int, incarnation: int, descriptors: Sequence[int]
    ) -> None:  # fmt: skip
        self.loop = loop
        self.node = node
        self.index = index
        self.incarnation = incarnation
        self.gauges = Gauges.open(node.gauges, writable=False)
        self.pulse = Pulse(Gauges.open(node.gauges), "console", index, incarnation)
        self.topology = Topology()
        self.wall_ahead = 0
        self.writer = Writer.of(node, "console", index, incarnation)
        self.recorder = Recorder(
            self.gauges,
            self.topology,
            self.put,
            node.settings.store.limit,
            self.gauges.process_read("supervisor", 0).started_us if incarnation == 1 else now_us(),
        )
        self.shards: dict[int, psutil.Process] = {}
        self.sweeper = ThreadPoolExecutor(1, "sweeper")
        self.context: zmq.Context[Any] = zmq.Context()
        self.events = subscribe(loop, self.context, node.process_events, self.on_process_event)
        self.router = RouterClient(loop, self.context, node, f"console.{index}.{incarnation}", self.load, self.apply)
        self.next_record: asyncio.TimerHandle | None = None
        self.next_sweep = loop.call_soon(self.sweep)
        self.interface = self.open_interface(descriptors)
        self.span_export = self.open_span_export()

    def open_interface(self, descriptors: Sequence[int]) -> Interface | None:
        """Return the HTTP interface, if the node has one. Its libraries are imported only then."""
        if not descriptors:
            return None
        from console.interface import Interface

        return Interface(self.node, self.gauges, self.topology, descriptors)

    def open_span_export(self) -> SpanExport | None:
        """Return the export of spans, if the node traces messages for a collector."""
        settings = self.node.settings.traces
        if not settings.endpoint or settings.ratio == 0:
            return None
        try:
            from console.tracing.export import SpanExport
        except ModuleNotFoundError:
            log.error("traces cannot be sent", problem="opentelemetry is missing: pip install 'penstock[traces]'")
            return None
        return SpanExport(self.node, self.gauges)

    def put(self, table: Table, ts: int, row: dict[str, Any]) -> None:
        """Write a row; its time on the node's clock is converted to wall-clock time."""
        if self.writer is not None:
            self.writer.put(table, ts + self.wall_ahead, row)

    # The other processes

    def load(self, version: int, changes: list[Any]) -> None:
        """Load a snapshot of the topology. The first one makes the console ready, and starts recording."""
        with self.pulse.during(Work.LOADING):
            self.topology.load(version, changes)
        if self.next_record is None:
            if self.interface is not None:
                self.interface.start()
            if self.span_export is not None:
                self.span_export.start()
            process.report_ready(self.context, self.node, "console", self.index, self.incarnation)
            self.record_each_second()

    def apply(self, version: int, changes: list[Any]) -> None:
        """Apply changes of the topology."""
        self.topology.follow(version, changes)

    def on_process_event(self, frames: list[bytes]) -> None:
        """Follow a restart of the router; sweep soon after a process has died."""
        event, role, *_ = ProcessMessage.read(frames[0])
        if event == "started" and role == "router":
            self.router.router_started()
        elif event == "died":
            self.next_sweep.cancel()
            self.next_sweep = self.loop.call_later(SETTLE_SECONDS, self.sweep)

    # Each second

    def record_each_second(self) -> None:
        """Record the gauges, if telemetry is on, and schedule the next time."""
        try:
            if self.interface is not None:
                self.interface.tick()
            self.record_gauges()
        finally:
            now = self.loop.time()
            # Time lost by a slow run is not made up for.
            due = self.next_record.when() + RECORD_SECONDS if self.next_record is not None else now + RECORD_SECONDS
            self.next_record = self.loop.call_at(max(due, now + RECORD_SECONDS / 2), self.record_each_second)

    def record_gauges(self) -> None:
        """Record the gauges once."""
        if self.writer is None:
            return
        self.wall_ahead = clock.wall_ahead_us()  # the same for all rows of one time
        self.recorder.record_all(
            now_us(), {shard: usage for shard in range(self.gauges.shards) if (usage := self.usage_of(shard))}
        )

    def usage_of(self, shard: int) -> Usage | None:
        """Return the CPU and memory use of a shard; None if it is dead."""
        pid = self.gauges.process_read("shard", shard).pid
        known = self.shards.get(shard)
        if not pid:
            return None
        with suppress(psutil.Error, OSError):  # it has just died, or no more files can be opened
            if known is None or known.pid != pid:
                known = self.shards[shard] = psutil.Process(pid)
            with known.oneshot():
                times = known.cpu_times()
                return Usage(pid, times.user + times.system, known.memory_info().rss)
        return None

    # The files

    def sweep(self) -> None:
        """Sweep the files of all processes of the node, in a thread: the disk may be slow."""
        settings = self.node.settings
        self.next_sweep = self.loop.call_later(SWEEP_SECONDS, self.sweep)
        self.sweeper.submit(
            try_sweep, settings.telemetry_directory, self.node.telemetry_names, settings.telemetry.limit
        )

    async def close(self) -> None:
        """Record the gauges a last time, and close: all other processes but the router have ended."""
        if self.interface is not None:
            await self.interface.close()
        if self.span_export is not None:
            await self.span_export.close()
        self.events.close()
        self.router.close()
        self.next_sweep.cancel()
        if self.next_record is not None:
            self.next_record.cancel()
        self.record_gauges()
        if self.writer is not None:
            self.writer.close()
        self.sweeper.shutdown(wait=False, cancel_futures=True)
        self.context.destroy(linger=0)


def try_sweep(root: Path, names: Collection[str], limit: int) -> None:
    """Sweep telemetry files; an OSError is logged."""
    try:
        sweep(root, names, limit)
    except OSError as error:
        log.error("cannot sweep telemetry", problem=str(error))


def reread(runtime: Path, console: Console) -> None:
    """The configuration is read again: take the log level, and load the certificate."""
    logs.read_level(runtime)
    if console.interface is not None:
        console.interface.reload()


async def serve(runtime: Path, index: int, incarnation: int, descriptors: Sequence[int]) -> None:
    """Run the console until it is asked to stop."""
    loop = asyncio.get_running_loop()
    node, stop = process.begin(runtime, "console", index)
    try:
        console = Console(loop, node, index, incarnation, descriptors)
    except TlsError as error:
        process.refuse(runtime, "console", index, str(error))
    process.on_reload(loop, partial(reread, runtime, console))
    collector.collect_and_keep()
    console.pulse.start(loop)
    log.info("console started", pid=os.getpid(), incarnation=incarnation)
    await stop.wait()
    await console.close()


def main(runtime: Path, index: int, incarnation: int, *descriptors: int) -> None:
    """Run the console process, with the descriptors of its listening sockets."""
    process.enter(runtime, "console", index)
    os.nice(NICENESS)
    asyncio.run(serve(runtime, index, incarnation, descriptors))
