"""The life of a node: what it takes up before its first process starts, and gives back after its last one ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from acceptor import known_passwords
from ops.claim import Pointer, claimed
from ops.deadlocks import DeadlockWatch
from ops.errors import StartError
from ops.forkserver import COMMAND, ForkServer
from ops.notify import Notifier
from ops.port import bound, refuse, show
from ops.reload import Reload
from ops.runtime import runtime_directory
from ops.signals import Signals
from ops.store import identity
from ops.store.opened import store_paths
from ops.store.recognition import Standing, begin_run
from ops.store.standing import check_standing
from ops.supervisor import Supervisor
from penstock import __version__
from penstock.control.audit import Audit, own
from penstock.files import reserve
from penstock.files.kept_clock import KeptClock
from penstock.memory import shared_counts, shared_rates
from penstock.memory.gauges import READY, Gauges, remove_stale
from penstock.node import clock
from penstock.node.logs import get_logger
from penstock.node.node import Node
from penstock.process import process
from penstock.settings import Settings
from penstock.settings.sources import Configuration
from router.storage.store import FILE_NAME, StoreError, known_shards

SHARED_MEMORY = Path("/dev/shm")

log = get_logger()


def serve(configuration: Configuration, read: Callable[[], Configuration], template: Sequence[str] = COMMAND) -> None:
    """Run a node until it is told to stop. StartError if it cannot be started; either way nothing of it is left.

    `read` reads the configuration again, `template` is the command that its processes are forked from.
    """
    settings = configuration.settings
    process.set_name("pstk-supervisor")
    process.adopt_orphans()
    process.raise_open_files()
    manager = Notifier()
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())
        stack.enter_context(claimed(settings.data))
        reserve.give_back(settings.data)
        KeptClock(settings.data).begin()
        known = _known_shards(settings)
        if not known:
            settings = settings.model_copy(update={"shards": _standing_shards(settings)})
        standing = check_standing(settings.data, known or range(settings.shards))
        port = stack.enter_context(bound(settings.host, settings.port))
        runtime = stack.enter_context(runtime_directory())
        epoch = clock.wall_us()
        path = SHARED_MEMORY / f"penstock-{os.geteuid()}-{os.getpid()}.{epoch}.gauges"
        if known:
            settings = settings.model_copy(update={"shards": len(known)})
        number = begin_run(settings.data, standing, epoch)
        address = settings.host, port.getsockname()[1]
        node = Node(epoch, runtime, path, *address, settings, clock.ahead_us(), known, number)
        gauges = stack.enter_context(_gauges(node))
        _introduce(node)
        forks = ForkServer(template, runtime, port.fileno())
        audit = Audit(settings.data, "supervisor", 0)
        reload = Reload(node, configuration, read, audit)
        supervisor = stack.enter_context(Supervisor(node, gauges, signals, forks, manager, reload.again))
        stack.callback(refuse, port)  # before those end who listen on it
        stack.enter_context(DeadlockWatch(settings, path))
        audit.note(own(), "serve", {"host": node.host, "port": node.port, "version": __version__}, "done")
        supervisor.run(lambda: _announce(node, standing, manager))
        manager.stopping()
        audit.note(None, "stop", {}, "done")
        log.info("stopping")


def _known_shards(settings: Settings) -> tuple[int, ...]:
    """The shards that commands have left, if any has changed them. StartError if they cannot be read."""
    try:
        known = known_shards(settings.data / FILE_NAME)
    except StoreError as error:
        raise StartError(str(error)) from None
    if known and "shards" in settings.model_fields_set and settings.shards not in (0, len(known)):
        log.warning(
            "the setting shards does not count: `penstock shard` has changed them",
            setting=settings.shards,
            shards=list(known),
        )
    return known


def _standing_shards(settings: Settings) -> int:
    """How many shards the node has: those that are asked for, or else those that the data directory has already. What
    the machine has counts for a new one only: on a smaller machine the node is the same.
    """
    stores = store_paths(settings.data)
    if "shards" in settings.model_fields_set or not stores:
        return settings.shards
    return stores[-1][0] + 1


def _introduce(node: Node) -> None:
    """Leave word: for the children in the runtime directory, for others in the data directory."""
    try:
        process.record_parent(node.runtime)
        known_passwords.create(node.known_passwords)
        shared_counts.create(node.shared_counts, node.counting)
        shared_counts.create(node.shared_hands, node.shard_places)
        shared_rates.create(node.shared_rates)
        node.store()
        Pointer(os.getpid(), node.runtime, node.gauges).store(node.settings.data)
    except OSError as error:
        raise StartError(f"cannot write {error.filename}: {error.strerror}") from None


def _announce(node: Node, standing: Standing, manager: Notifier) -> None:
    """`standing` are the stores before the start: those of shards that the node has not are as they were."""
    others = {facts.epoch for index, facts in standing.shards.items() if index not in node.shards}
    try:
        identity.store(node.settings.data, identity.Identity(node.identity, (*sorted(others), node.epoch)))
    except OSError as error:  # on a full disk; the list that the start has written is longer, and as true
        log.warning("the runs of the node cannot be noted", path=error.filename, problem=error.strerror)
    where = show(node.host, node.port)
    log.info("ready", amqp=where, acceptors=node.acceptors, shards=len(node.shards), data=str(node.settings.data))
    manager.ready()
    with suppress(OSError):  # nobody reads it: no reason not to serve
        print(f"penstock ready amqp={where} pid={os.getpid()}", flush=True)


@contextmanager
def _gauges(node: Node) -> Iterator[Gauges]:
    """The gauges file of the node, mapped; unlinked at the end. Those that killed nodes left are removed first."""
    for path in remove_stale(SHARED_MEMORY):
        log.warning("removed the gauges of a node that did not stop in order", path=str(path))
    try:
        gauges = Gauges.create(
            node.gauges,
            epoch=node.epoch,
            acceptors=node.acceptors,
            shards=node.shard_places,
            queues=node.settings.max_queues,
            pid=os.getpid(),
        )
    except OSError as error:
        raise StartError(f"cannot create the gauges {node.gauges}: {error.strerror}") from None
    try:
        with gauges:
            gauges.process_write(
                "supervisor", 0, pid=os.getpid(), incarnation=1, state=READY, started_us=clock.now_us(), restarts=0
            )
            yield gauges
    finally:
        node.gauges.unlink(missing_ok=True)
