"""The shell of one relay that a node runs: its runs, one after the other, on the loop of its process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ops.errors import CommandError
from ops.relay.configured import places_of, router_of, sides_of
from ops.relay.core import Relay
from ops.relay.kept import Kept, State
from penstock.node.logs import get_logger
from penstock.node.node import Node
from penstock.settings.relays import RelaySettings

if TYPE_CHECKING:
    from ops.relay.shell import Shell

THIS_NODE = "this node"

log = get_logger()


class NodeRelay:
    """One relay, from `start` until it has left. `left` is called then."""

    patient = True

    def __init__(self, name: str, settings: RelaySettings, node: Node, left: Callable[[NodeRelay], None]) -> None:
        self.name = name
        self.settings = settings
        self.kept = Kept(time.monotonic())
        self.loop: Any = None
        self._node = node
        self._left = left
        self._shell: Shell | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._leaving = False
        self._logged = ""
        self._addresses = (settings.source or THIS_NODE, settings.target or THIS_NODE)

    def start(self) -> None:
        """Begin a run."""
        now = time.monotonic()
        self._timer = None
        try:
            sides = sides_of(self.name, self.settings, self._node)
        except CommandError as error:
            self.kept.refuse(str(error), now)
            self._wait()
            return
        from ops.relay.asyncio_loop import AsyncioLoop  # not at the top: they need pika
        from ops.relay.shell import Shell

        source, target = sides.places
        self._addresses = (str(source), str(target))
        self.loop = AsyncioLoop(asyncio.get_running_loop())
        run = Relay(
            router_of(self.settings), prefetch=self.settings.prefetch, now=now, rate=self.settings.rate or None,
            follow=True,
        )  # fmt: skip
        self.kept.begin(run, now)
        self._shell = Shell(self, run, places_of(self.settings, sides), self.settings.prefetch)
        self._shell.start()

    def change(self, settings: RelaySettings) -> None:
        """Go on with other settings."""
        self.settings = settings
        self._addresses = (settings.source or THIS_NODE, settings.target or THIS_NODE)
        self.restart()

    def restart(self) -> None:
        """End the run, if there is one, and begin the next at once."""
        if self._shell is not None:
            self._stop_run(self._shell)
            return
        if self._timer is not None:
            self._timer.cancel()
        self.kept.restart(time.monotonic())
        self.start()

    def leave(self) -> None:
        """End the run and begin no other; called again, wait for no more confirms."""
        self._leaving = True
        if self._timer is not None:
            self._timer.cancel()
        if self._shell is not None:
            self._shell.stop()
        else:
            self._left(self)

    def facts(self) -> dict[str, Any]:
        """The facts of the relay, as `penstock relay list --json` prints them. Times are wall-clock time."""
        now, kept, settings = time.monotonic(), self.kept, self.settings
        kept.update(now)
        source, target = self._addresses
        return {
            "name": self.name,
            "state": kept.state.value,
            "since": _wall(kept.since, now),
            "relayed": kept.confirmed,
            "unconfirmed": kept.run.unconfirmed if kept.run else 0,
            "unroutable": kept.run.unroutable if kept.run else 0,
            "reason": kept.reason(now),
            "source": source,
            "queue": settings.queue,
            "target": target,
            "target_queue": settings.target_queue,
            "target_exchange": settings.target_exchange,
            "routing_key": settings.routing_key,
            "prefetch": settings.prefetch,
            "rate": settings.rate or None,
            "last_error": kept.error or None,
            "last_error_at": _wall(kept.error_at, now) if kept.error else None,
            "retry_in": round(max(0.0, kept.retry_at - now), 3) if kept.retry_at is not None else None,
        }

    # As the host of the run's shell.

    def report(self, line: str) -> None:
        """Log an error that ends nothing."""
        self.kept.report(line, time.monotonic())
        self._warn(line)

    def progress(self) -> None:
        """Follow the state of the run."""
        before = self.kept.state
        self.kept.update(time.monotonic())
        if before in (State.CONNECTING, State.FAILING) and self.kept.state is not before:
            self._logged = ""
            log.info("relay connected", relay=self.name)

    def ended(self, shell: Shell) -> None:
        """Handle the end of both connections of a run."""
        self._shell = None
        self.kept.end(time.monotonic())
        if self._leaving:
            self._left(self)
        else:
            self._wait()

    def _stop_run(self, shell: Shell) -> None:
        """Stop a run, unless it stops already."""
        if not shell.core.stopping:
            shell.stop()

    def _wait(self) -> None:
        """Have the next run begin when it is due."""
        assert self.kept.retry_at is not None
        if self.kept.state is State.FAILING:
            self._warn(self.kept.error)
        seconds = max(0.0, self.kept.retry_at - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(seconds, self.start)

    def _warn(self, problem: str) -> None:
        """Log a problem, unless it was logged last."""
        if problem != self._logged:
            self._logged = problem
            log.warning("relay cannot go on", relay=self.name, problem=problem)


def _wall(moment: float, now: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=now - moment)).isoformat(timespec="milliseconds")
