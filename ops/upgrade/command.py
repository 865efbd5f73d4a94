"""`penstock upgrade`: have a running node go on with the installed release."""

from __future__ import annotations

import time
from pathlib import Path

from ops.administration.node import ask, gauges_of, running
from ops.claim import is_claimed
from ops.errors import CommandError
from ops.naming import Data
from ops.renewal import ORDER
from ops.running import Running
from ops.upgrade.progress import Progress, Stage
from penstock import __version__
from penstock.memory.gauges import READY, Gauges
from penstock.node.node import Role
from penstock.node.wire_format import WIRE_FORMAT

BEGIN_SECONDS = 10.0
"""How long the supervisor may take to begin."""
POLL_SECONDS = 0.05

Place = tuple[Role, int]
SUPERVISOR: Place = ("supervisor", 0)
SUPERVISOR_LATER = "; the supervisor does after the next start of the node"
"""Printed if the running supervisor could not replace itself."""


def upgrade(data: Data = None) -> None:
    """Install the new release first, in the place of the running one. Nothing is lost. Clients of an acceptor are
    disconnected (320 CONNECTION_FORCED) when it is replaced, and reconnect at once; the clients of a shard's queues
    wait while it is. If the releases cannot serve side by side, or a process of the new one does not start, the running
    release goes on, and one line gives the reason.

    Example: penstock upgrade --data /var/lib/penstock
    """
    node, directory = running(data)
    _check(node)
    with gauges_of(data) as gauges:
        before = Progress.load(node.runtime)
        number = 1 if before is None else before.number + 1
        shown = _processes(gauges)
        supervisor = shown.get(SUPERVISOR, 0)
        ask(data, "node_upgrade")
        deadline = time.monotonic() + BEGIN_SECONDS
        while (progress := _progress(node, directory)) is None or progress.number < number:
            if time.monotonic() > deadline:
                raise CommandError(f"the node on {directory} did not begin in {BEGIN_SECONDS:g} s; its log says why")
            time.sleep(POLL_SECONDS)
        while not progress.is_over:
            shown = _show(shown, _processes(gauges))
            time.sleep(POLL_SECONDS)
            progress = _progress(node, directory) or progress
        has_all = _show(shown, _processes(gauges)).get(SUPERVISOR, 0) > supervisor
    if progress.stage is Stage.FAILED:
        raise CommandError(f"the running release goes on: {progress.reason}")
    print(f"all processes run penstock {progress.version}{'' if has_all else SUPERVISOR_LATER}")


def _check(node: Running) -> None:
    """Raise CommandError if the running node is of a release whose processes cannot serve beside those of this one."""
    if node.wire_format != WIRE_FORMAT:
        raise CommandError(
            f"processes of penstock {__version__} cannot serve beside the running ones (wire format {WIRE_FORMAT}, "
            f"not {node.wire_format}): stop the node and start it"
        )


def _progress(node: Running, directory: Path) -> Progress | None:
    """Return how far the last upgrade has come; None if there was none. CommandError if the node has ended."""
    if not is_claimed(directory):
        raise CommandError(f"the node on {directory} has ended; its log says why")
    return Progress.load(node.runtime)


def _processes(gauges: Gauges) -> dict[Place, int]:
    """Return the incarnations of the processes that serve."""
    several = {"shard": gauges.shards, "acceptor": gauges.acceptors}
    found: dict[Place, int] = {}
    for role in (*ORDER, SUPERVISOR[0]):
        for index in range(several.get(role, 1)):
            place = gauges.process_read(role, index)
            if not place.torn and place.state == READY:
                found[role, index] = place.incarnation
    return found


def _show(shown: dict[Place, int], found: dict[Place, int]) -> dict[Place, int]:
    """Print the processes that have been replaced, and return all as they are."""
    for place, incarnation in found.items():
        if incarnation > shown.get(place, incarnation):
            print(f"{place[0]} {place[1]} replaced", flush=True)
    return shown | found
