"""The balancer process: signals and the pulse around its work. Clients are served without it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import zmq

from ops.balancer.work import Work
from penstock.memory.gauges import Gauges
from penstock.node import collector, logs
from penstock.node.node import Node
from penstock.process import process
from penstock.process.pulse import Pulse

log = logs.get_logger()


async def serve(runtime: Path, index: int, incarnation: int) -> None:
    """Run the balancer until it is asked to stop."""
    loop = asyncio.get_running_loop()
    node, stop = process.begin(runtime, "balancer", index)
    pulse = Pulse(Gauges.open(node.gauges), "balancer", index, incarnation)
    work = Work(node.settings.data, node.settings.rebalance)
    process.on_reload(loop, lambda: reread(runtime, work))
    reread(runtime, work)  # it may have changed before there was a handler
    collector.collect_and_keep()
    pulse.start(loop)
    context: zmq.Context[Any] = zmq.Context()
    process.report_ready(context, node, "balancer", index, incarnation)
    log.info("balancer started", pid=os.getpid(), incarnation=incarnation)
    working: asyncio.Future[Any] = loop.run_in_executor(None, work.run)
    stopped: asyncio.Future[Any] = loop.create_task(stop.wait())
    await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
    work.stop()
    await working
    stopped.cancel()
    context.destroy(linger=0)


def reread(runtime: Path, work: Work) -> None:
    """Take over the settings in the node file."""
    logs.read_level(runtime)
    work.settings = Node.load(runtime).settings.rebalance


def main(runtime: Path, index: int, incarnation: int) -> None:
    """Run the balancer process."""
    process.enter(runtime, "balancer", index)
    asyncio.run(serve(runtime, index, incarnation))
