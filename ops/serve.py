"""The life of a node: what it takes up before its first process starts, and gives back after its last one ended."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ops.child import CommandOf, role_command
from ops.claim import Pointer, claimed
from ops.errors import StartError
from ops.port import reserved, show
from ops.runtime import runtime_directory
from ops.signals import Signals
from ops.store.standing import check_standing
from ops.supervisor import Supervisor
from penstock import process
from penstock.gauges import READY, Gauges, remove_stale
from penstock.logs import get_logger
from penstock.node import Node
from penstock.settings import Settings

SHARED_MEMORY = Path("/dev/shm")

log = get_logger()


def serve(settings: Settings, command: CommandOf = role_command) -> None:
    """Run a node until it is told to stop. StartError if it cannot be started; either way nothing of it is left."""
    process.set_name("pstk-supervisor")
    process.raise_open_files()
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())
        stack.enter_context(claimed(settings.data))
        check_standing(settings.data, settings.shards)
        port = stack.enter_context(reserved(settings.host, settings.port))
        runtime = stack.enter_context(runtime_directory())
        epoch = time.time_ns() // 1000
        gauges = stack.enter_context(_gauges(settings, epoch))
        node = Node(epoch, runtime, Path(gauges.path), settings.host, port, settings)
        _introduce(node)
        supervisor = stack.enter_context(Supervisor(node, gauges, signals, command))
        supervisor.run(lambda: _announce(node))
        log.info("stopping")


def _introduce(node: Node) -> None:
    """Leave word: for the children in the runtime directory, for others in the data directory."""
    try:
        process.record_parent(node.runtime)
        node.store()
        Pointer(os.getpid(), node.runtime, node.gauges).store(node.settings.data)
    except OSError as error:
        raise StartError(f"cannot write {error.filename}: {error.strerror}") from None


def _announce(node: Node) -> None:
    where = show(node.host, node.port)
    log.info("ready", amqp=where, acceptors=node.acceptors, shards=node.shards, data=str(node.settings.data))
    with suppress(OSError):  # nobody reads it: no reason not to serve
        print(f"penstock ready amqp={where} pid={os.getpid()}", flush=True)


@contextmanager
def _gauges(settings: Settings, epoch: int) -> Iterator[Gauges]:
    """The gauges file of the node, mapped; unlinked at the end. Those that killed nodes left are removed first."""
    for path in remove_stale(SHARED_MEMORY):
        log.warning("removed the gauges of a node that did not stop in order", path=str(path))
    path = SHARED_MEMORY / f"penstock-{os.geteuid()}-{os.getpid()}.{epoch}.gauges"
    try:
        gauges = Gauges.create(
            path,
            epoch=epoch,
            acceptors=settings.acceptors,
            shards=settings.shards,
            queues=settings.max_queues,
            pid=os.getpid(),
        )
    except OSError as error:
        raise StartError(f"cannot create the gauges {path}: {error.strerror}") from None
    try:
        with gauges:
            gauges.process_write(
                "supervisor", 0, pid=os.getpid(), incarnation=1, state=READY, started_us=epoch, restarts=0
            )
            yield gauges
    finally:
        path.unlink(missing_ok=True)
