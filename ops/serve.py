"""One run of a node: acquires its resources before the first process starts, releases them after the last has ended.

A supervisor that takes the place of another one (`ops.succession`) finds them acquired.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from acceptor.logins import known_passwords
from ops import claim
from ops import runtime as runtimes
from ops.claim import Pointer, claimed
from ops.deadlocks import DeadlockWatch
from ops.errors import StartError
from ops.forkserver import COMMAND, ForkServer
from ops.notify import Notifier
from ops.port import bound, refuse, reuse, show
from ops.reload import Reload
from ops.runtime import runtime_directory
from ops.signals import Signals
from ops.store import identity
from ops.store.opened import store_paths
from ops.store.recognition import Standing, begin_run
from ops.store.standing import check_standing
from ops.succession import Estate, Held
from ops.successor import Successor
from ops.supervisor import Supervisor
from ops.template import fork
from penstock import __version__
from penstock.control.audit import Audit, own
from penstock.control.control_server import listening_at
from penstock.files import reserve
from penstock.files.kept_clock import KeptClock
from penstock.memory import shared_counts, shared_rates
from penstock.memory.gauges import Gauges
from penstock.memory.stale import SHARED_MEMORY, remove_stale
from penstock.node import clock, logs
from penstock.node.node import Node, Role
from penstock.process import process
from penstock.settings import Settings
from penstock.settings.errors import SettingsError
from penstock.settings.sources import Configuration
from penstock.tls.errors import TlsError
from router.storage.store import FILE_NAME, StoreError, known_shards

log = logs.get_logger()

HTTP_BACKLOG = 256
"""Clients of the HTTP interface that may wait to be accepted."""


def serve(
    configuration: Configuration, read: Callable[[], Configuration], template: Sequence[str] | None = None
) -> None:
    """Run a node until it is asked to stop. StartError if it cannot be started; either way no process or shared memory
    is left behind. ForkEnded in a forked process.

    `read` rereads the configuration; `template` is the command of the template process, if it is not penstock's own.
    """
    settings = configuration.settings
    _enter(settings)
    manager = Notifier()
    first = fork() if template is None else None  # now: the limits are set, and nothing is open
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())
        locks = stack.enter_context(claimed(settings.data))
        reserve.give_back(settings.data)
        KeptClock(settings.data).begin()
        known = _known_shards(settings)
        if not known:
            settings = settings.model_copy(update={"shards": _standing_shards(settings)})
        _check_certificate(settings)
        standing = check_standing(settings.data, known or range(settings.shards))
        plain = [(settings.host, settings.port)] if settings.plain else []
        places = [*plain, *((one.host, one.port) for one in settings.listeners.values())]
        ports = [stack.enter_context(bound(host, port)) for host, port in places]
        http_ports = {name: stack.enter_context(_listening(*place)) for name, place in settings.http.places.items()}
        runtime = stack.enter_context(runtime_directory())
        epoch = clock.wall_us()
        path = SHARED_MEMORY / f"penstock-{os.geteuid()}-{os.getpid()}.{epoch}.gauges"
        if known:
            settings = settings.model_copy(update={"shards": len(known)})
        number = begin_run(settings.data, standing, epoch)
        serves = [(host, port.getsockname()[1]) for (host, _), port in zip(places, ports, strict=True)]
        listeners = dict(zip(settings.listeners, serves[len(plain) :], strict=True))
        http = {name: (settings.http.host, port.getsockname()[1]) for name, port in http_ports.items()}
        node = Node(epoch, runtime, path, *serves[0], settings, clock.ahead_us(), known, number, listeners, http)
        operator = [stack.enter_context(listening_at(node.http_socket))] if http else []
        held = Held(locks, tuple(ports), http_ports, tuple(operator))
        gauges = stack.enter_context(_gauges(node))
        _introduce(node)
        forks = ForkServer(template or COMMAND, runtime, _inherited(held), first)
        audit = Audit(settings.data, "supervisor", 0)
        reload = Reload(node, configuration, read, audit)
        supervisor = Supervisor(node, gauges, signals, forks, manager, reload.reload, held)
        audit.record(own(), "serve", {"host": node.host, "port": node.port, "version": __version__}, "done")
        _run(stack, supervisor, node, held, manager, audit, lambda: _announce(node, standing, manager))


def go_on(successor: Successor, read: Callable[[], Configuration]) -> None:
    """Run a node that another supervisor has started, until it is asked to stop; in a trial, only read what that one
    leaves. StartError if it cannot be read.
    """
    runtime = successor.runtime
    try:
        node, estate = Node.load(runtime), Estate.load(runtime)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StartError(f"cannot go on with the node: {error}") from None
    if successor.is_trial:
        return
    settings = node.settings
    logs.configure(settings, "supervisor", 0)
    _enter(settings)
    clock.adopt(node.clock_ahead_us)
    manager = Notifier()
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())
        for lock in estate.locks:
            stack.callback(os.close, lock)
        stack.enter_context(claim.remaining(settings.data))
        stack.enter_context(runtimes.remaining(runtime))

        def opened(descriptor: int) -> socket.socket:
            return stack.enter_context(socket.socket(fileno=descriptor))

        http = {name: opened(each) for name, each in estate.http.items()}
        held = Held(tuple(estate.locks), tuple(map(opened, estate.ports)), http, tuple(map(opened, estate.operator)))
        stack.callback(node.gauges.unlink, missing_ok=True)
        gauges = stack.enter_context(Gauges.open(node.gauges, writable=True))
        forks = ForkServer(COMMAND, runtime, _inherited(held))
        forks.adopt(estate.template_pid, estate.template, time.monotonic())
        audit = Audit(settings.data, "supervisor", 0)
        reload = Reload(node, _configured(read, settings), read, audit)
        supervisor = Supervisor(node, gauges, signals, forks, manager, reload.reload, held, estate)
        log.info("supervisor replaced", version=__version__, incarnation=estate.incarnation + 1)
        _run(stack, supervisor, node, held, manager, audit, manager.go_on)


def _configured(read: Callable[[], Configuration], settings: Settings) -> Configuration:
    """Return the configuration as it is now; if that is invalid, one of the settings that the node runs with."""
    try:
        return read()
    except SettingsError:
        return Configuration(settings, {})


def _enter(settings: Settings) -> None:
    """Make this process the supervisor: its name, its duties, its limits."""
    process.set_name("pstk-supervisor")
    process.adopt_orphans()
    process.raise_open_files()
    if not settings.watchdog.core_dumps:
        process.forbid_core_dumps()


def _inherited(held: Held) -> dict[Role, list[int]]:
    """Return the descriptors that the processes of roles inherit."""
    return {"acceptor": held.for_acceptors, "console": held.for_console}


def _run(
    stack: ExitStack,
    supervisor: Supervisor,
    node: Node,
    held: Held,
    manager: Notifier,
    audit: Audit,
    on_ready: Callable[[], None],
) -> None:
    """Run the supervisor until it is asked to stop."""
    stack.enter_context(supervisor)
    for port in held.ports:
        stack.callback(refuse, port)  # runs before the acceptors end, which listen on it
    stack.enter_context(DeadlockWatch(node.settings, node.gauges))
    supervisor.run(on_ready)
    manager.report_stopping()
    audit.record(None, "stop", {}, "done")
    log.info("stopping")


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket of the HTTP interface. It listens: clients wait for the console, which starts last, or anew."""
    with bound(host, port) as http_port:
        reuse(http_port)
        http_port.listen(HTTP_BACKLOG)
        yield http_port


def _check_certificate(settings: Settings) -> None:
    """Raise StartError if HTTP could not be served with its certificate: the console starts after the node is ready."""
    if settings.http.enabled and settings.http.secured is not None:
        from penstock.tls.contexts import inner_contexts  # not at the top: takes a library of 12 MiB

        try:
            inner_contexts(settings.http.secured)
        except TlsError as error:
            raise StartError(f"http: {error}") from None


def _known_shards(settings: Settings) -> tuple[int, ...]:
    """Return the shards as `penstock shard` left them; empty if none ran. StartError if they cannot be read."""
    try:
        known = known_shards(settings.data / FILE_NAME)
    except StoreError as error:
        raise StartError(str(error)) from None
    if known and "shards" in settings.model_fields_set and settings.shards not in (0, len(known)):
        log.warning(
            "the setting shards is ignored: `penstock shard` has changed the shards",
            setting=settings.shards,
            shards=list(known),
        )
    return known


def _standing_shards(settings: Settings) -> int:
    """Return the number of shards: the setting, or else the number of stores in the data directory. The default, which
    depends on the machine, is for a new directory only: a node that moves to a smaller machine keeps its shards.
    """
    stores = store_paths(settings.data)
    if "shards" in settings.model_fields_set or not stores:
        return settings.shards
    return stores[-1][0] + 1


def _introduce(node: Node) -> None:
    """Write the files of the node: for its processes in the runtime directory, for commands in the data directory."""
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
    """Report that the node is ready. `standing` are the stores before the start: those of shards that the node does not
    have keep their epochs.
    """
    others = {facts.epoch for index, facts in standing.shards.items() if index not in node.shards}
    try:
        identity.store(node.settings.data, identity.Identity(node.identity, (*sorted(others), node.epoch)))
    except OSError as error:  # a full disk: the longer list that the start wrote stays valid
        log.warning("cannot record the runs of the node", path=error.filename, problem=error.strerror)
    where = show(node.host, node.port)
    plain = {"amqp": where} if node.settings.plain else {}
    listeners = {name: show(*place) for name, place in node.listeners.items()}
    http = {name: show(*place) for name, place in node.http.items()}
    log.info(
        "ready", **plain, **({"listeners": listeners} if listeners else {}), **({"http": http} if http else {}),
        acceptors=node.acceptors, shards=len(node.shards),
        data=str(node.settings.data),
    )  # fmt: skip
    manager.report_ready()
    with suppress(OSError):  # a closed standard output is no reason not to serve
        print(f"penstock ready {node.scheme}={where} pid={os.getpid()}", flush=True)


@contextmanager
def _gauges(node: Node) -> Iterator[Gauges]:
    """Create the gauges file of the node, and unlink it at the end. Gauges left by killed nodes are removed first."""
    for path in remove_stale(SHARED_MEMORY):
        log.warning("removed the gauges of a node that did not stop cleanly", path=str(path))
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
            yield gauges
    finally:
        node.gauges.unlink(missing_ok=True)
