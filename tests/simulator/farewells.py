"""Acceptors that end in order, as they are asked to: the shell around `acceptor.ending`, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from acceptor.clients.connection_stage import OPEN
from acceptor.ending import SAFE_SECONDS, Ending
from tests.simulator.engine import ROUTER, Engine, Place
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import parked
from tests.simulator.joined.processes import Acceptor
from tests.simulator.truth import Truth

POLL_SECONDS = 0.002
"""How often it is seen whether what it waits for has happened."""


class Farewells:
    """Ends acceptors. `kill` ends the process at a place, with all that it has sent."""

    def __init__(self, engine: Engine, truth: Truth, kill: Callable[[Place, int, bool], bool]) -> None:
        self.engine = engine
        self.timeline = engine.timeline
        self.node = engine.node
        self.truth = truth
        self.kill = kill

    def begin(self, seat: int) -> None:
        """Have an acceptor take neither clients nor bytes any more, and wait until what it has sent is safe."""
        acceptor = self.node.acceptors[seat]
        if acceptor is None or seat in self.node.closed:
            return
        self.node.closed.add(seat)
        for client in self.clients(acceptor):
            client.socket.pause_reading()
        ending, now = Ending(acceptor.core, self.timeline.now), self.timeline.now
        self.engine.turn_ends(("acceptor", seat))
        self.poll(acceptor, partial(self.is_safe, ending, now), partial(self.close_connections, acceptor, ending))

    def poll(self, acceptor: Acceptor, happened: Callable[[], bool], then: Callable[[], None]) -> None:
        """Do something once something has happened, unless the acceptor was killed; later if it hangs."""
        again = partial(self.poll, acceptor, happened, then)
        if self.node.acceptors[acceptor.seat] is not acceptor:
            return
        if self.engine.is_postponed(("acceptor", acceptor.seat), again):
            return
        if happened():
            then()
        else:
            self.timeline.after(POLL_SECONDS, again)

    def clients(self, acceptor: Acceptor) -> list[Client]:
        """Return the clients of an acceptor."""
        return [client for client in self.node.clients.values() if client.acceptor == acceptor.seat]

    def is_safe(self, ending: Ending, began: float) -> bool:
        """Whether what was sent is safe, or was waited for long enough."""
        return ending.is_safe() or self.timeline.now >= began + SAFE_SECONDS

    def close_connections(self, acceptor: Acceptor, ending: Ending) -> None:
        """Tell the clients, and wait for their answers."""
        core, now = acceptor.core, self.timeline.now
        core.state.now = now
        self.note_lost(acceptor)
        unheard = ending.close_connections()
        self.engine.end_turn(("acceptor", acceptor.seat))
        for client in self.clients(acceptor):
            if client.connection in unheard:
                client.socket.close()
            elif not client.socket.closed:
                client.socket.resume_reading()
        self.engine.arm_all()
        over = now + ending.patience(now)
        self.poll(
            acceptor, lambda: not self.clients(acceptor) or self.timeline.now >= over, partial(self.end, acceptor)
        )

    def note_lost(self, acceptor: Acceptor) -> None:
        """Record what ends with the acceptor: publishes that wait at gates; if not all that it has sent is safe, which
        takes too long or is up to a dead shard, any that was not confirmed, and acks for queues that move for too long.
        """
        if acceptor.core.state.limbo or any(link.sent or link.turn.operations for link in acceptor.core.links):
            self.truth.died("acceptor", acceptor.seat, self.timeline.now)
        channels = *acceptor.core.state.channels(), *acceptor.core.orphans.channels
        waiting = {tuple(body.split(b" ", 2)[:2]) for channel in channels for _, body in parked(channel)}
        self.truth.may_be_dropped(id for id in self.truth.messages if (b"%d" % id.client, b"%d" % id.number) in waiting)

    def end(self, acceptor: Acceptor) -> None:
        """End the process. What it has asked of the router arrives if that runs. AssertionError if a client was not
        told.
        """
        for client in self.clients(acceptor):
            assert client.connection.stage is not OPEN, f"{client.connection.id} is lost without a word"
        self.node.carry_out(acceptor)
        if self.node.router_runs:
            self.node.receive_requests(acceptor)
            self.engine.turn_ends(ROUTER)
        self.engine.narrate(f"acceptor {acceptor.seat} has ended in order")
        self.kill(("acceptor", acceptor.seat), 1 << 30, True)
        self.engine.arm_all()
