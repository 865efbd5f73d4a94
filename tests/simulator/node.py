"""The node of a world: joined cores in which nothing happens at once that takes time in a real node.

What two processes say to each other waits in line until the world delivers it; a turn that would wait a moment for
settlements waits for virtual time to pass; requests to the router travel like everything else.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from acceptor.clients.clock_origin import ClockOrigin
from acceptor.links.outgoing import SETTLING_SECONDS
from acceptor.questions import questions as questions_of_acceptor
from console.recorder import Usage
from penstock import bus
from penstock.bus.router_messages import Published
from penstock.bus.shard_incarnations import started
from penstock.control.questions import Question
from penstock.node.clock import Clock
from router.core import Turn
from router.model.topology import Topology
from router.storage.store import Store as RouterStore
from shard.contents.errors import StoreError
from shard.questions import questions as questions_of_shard
from shard.queue.saturation import Stop
from shard.store.store import Store
from shard.turns.room import UNFLUSHED
from tests.simulator.bounds import Bounds
from tests.simulator.console import Console
from tests.simulator.disk import SimulatedDisk, SimulatedStore
from tests.simulator.joined.node import Node
from tests.simulator.joined.processes import Acceptor, Shard, at_once
from tests.simulator.joined.router import Router
from tests.simulator.router_disk import RouterDisk, is_recovered

Job = tuple[Callable[[], None], Callable[[StoreError | None], None]]
"""Work of a shard's reading thread, and what the shard does with the result."""


class SimulatedNode(Node):
    """Joined cores whose time is the world's. `jobs` has what each shard's reading thread has still to do."""

    router_answers_at_once = False
    place = "/dev/shm"

    def __init__(
        self, acceptors: int, shards: int, spare: int, flow: dict[str, Any], stores: bool, bounds: Bounds,
        chance: Random, reads_topology: bool, renews: bool,
    ) -> None:  # fmt: skip
        self.chance = chance
        self.bounds = bounds
        self.reads_topology = reads_topology
        self.stored_topology = Topology()
        """The topology as a router stored it last."""
        self.stored_in = 0
        """The epoch in which it did."""
        self.router_waits = False
        """Whether the router's turn cannot be stored, and waits until it is tried again."""
        self.deaths_to_handle = 0
        """How many deaths the router has not heard of yet."""
        self.console: Console | None = None
        self.jobs: dict[int, deque[Job]] = defaultdict(deque)
        self.disks = [SimulatedDisk() for _ in range(shards + spare)]
        self.on_shard_asked: Callable[[int, bool], None] = lambda shard, there: None
        """Called when the router asks the supervisor to start a shard, or to end one for good."""
        self.wall_ahead = 1_700_000_000_000_000
        """How many microseconds the wall clock is ahead of the node's clock, which is virtual time."""
        self.reported: set[int] = set()
        """The shards that have received a report from another, and are to end a turn."""
        self.closed: set[int] = set()
        """The seats of acceptors that end in order, and accept no clients any more."""
        super().__init__(
            acceptors, shards, flow | bounds.flow(), stores, spare=spare, renews=renews, **bounds.options(acceptors)
        )
        self.start_console()

    def clock(self) -> Clock:
        """Return a clock of virtual time."""
        return Clock(self.microseconds, lambda: self.microseconds() + self.wall_ahead)

    def set_wall_clock(self, seconds: float) -> None:
        """Set the wall clock forward, or back; all processes notice sooner or later."""
        self.wall_ahead += round(seconds * 1e6)
        for _, acceptor in self.running_acceptors():
            acceptor.core.state.origin = ClockOrigin(wall=self.wall_ahead / 1e6, node=0.0)
        for _, shard in self.running_shards():
            shard.core.state.wall_ahead = self.wall_ahead

    def shard_process(self, index: int, incarnation: int) -> Shard:
        """Return an incarnation of a shard that keeps as little as its bounds say."""
        process = super().shard_process(index, incarnation)
        process.core.burial.kept_back = self.bounds.kept_back
        return process

    @cached_property
    def router_disk(self) -> RouterDisk:
        """The router's disk."""
        return RouterDisk(self.settings.data, self.chance)

    def open_router_store(self) -> RouterStore:
        """Open the store on the router's disk; in memory if nobody is to read it."""
        return self.router_disk.open(self.epoch) if self.reads_topology else self.memory_store

    def new_router(self) -> Router:
        """Return a new incarnation of the router. AssertionError if it does not have what outlives the one before."""
        router = super().new_router()
        self.incarnations["router", 0] += 1
        if self.stored_in:
            is_recovered(router.topology, self.stored_topology, self.epoch > self.stored_in)
        self.stored_topology, self.stored_in = Topology(changes=router.topology.changes()), self.epoch
        router.authority.placing.ask = lambda shard, there: self.on_shard_asked(shard, there)
        return router

    def kill_router(self, arriving: int = 1 << 30, stored: bool = False) -> None:
        """Kill the router. With `stored`, its turn in progress reaches the store, and nobody else."""
        turn = self.router.finish_turn() if stored else None
        if turn is not None:
            self.note_stored(turn)
        super().kill_router(arriving)

    def end_router(self) -> None:
        """Leave the router's disk as it is."""
        self.router_waits = False
        self.router_disk.die()

    def publish_changes(self) -> None:
        """Finish the router's turn, unless it waits for the disk."""
        turn = None if self.router_waits else self.router.finish_turn()
        self.router_waits = turn is None
        if turn is not None:
            self.note_stored(turn)
            self.publish(turn)

    @contextmanager
    def one_turn(self) -> Iterator[None]:
        """Have the router do all that it is asked meanwhile in one turn."""
        self.router_waits = True
        yield
        self.router_waits = False
        self.publish_changes()

    def note_stored(self, turn: Turn) -> None:
        """Record the changes that a turn of the router has stored."""
        if turn.published is not None:
            for change in Published(*bus.unpack(turn.published)).changes or ():
                self.stored_topology.apply(change)

    def introduce_shard(self, index: int, process: Shard) -> None:
        """Have a new shard find others in the gauges; they hear of it from the supervisor."""
        for peer, incarnation in started(self.gauges):
            self.meet_peer(process, peer, incarnation)

    def introduce_acceptor(self, process: Acceptor) -> None:
        """Have a new acceptor that serves find the shards in the gauges."""
        if process.core.serves():
            for shard, incarnation in started(self.gauges):
                self.meet_shard(process, shard, incarnation)

    def meet_shard(self, process: Acceptor, shard: int, incarnation: int) -> None:
        """Have an acceptor meet an incarnation of a shard, if it serves."""
        if process.core.serves():
            super().meet_shard(process, shard, incarnation)

    def receive_own_event(self, event: str, index: int, incarnation: int) -> None:
        """Have an acceptor learn that it has its place, or that its predecessor is asked to end."""
        for _, process in self.running_acceptors():
            state = process.core.state
            if (state.index, state.incarnation) == (index, incarnation):
                if event == "replaces":
                    process.core.replaces()
                self.introduce_acceptor(process)

    def accepting(self) -> list[int]:
        """Return the seats of the acceptors that accept clients."""
        return [
            seat for seat, acceptor in self.running_acceptors() if seat not in self.closed and acceptor.core.serves()
        ]

    def kill_acceptor(self, seat: int) -> None:
        """Kill the acceptor in a seat."""
        super().kill_acceptor(seat)
        self.closed.discard(seat)

    def bury(self, role: str, index: int, incarnation: int, noticed: bool = True) -> None:
        """Do nothing: the supervisor will notice the death."""

    def announce_death(self) -> None:
        """Have the supervisor tell the router of a death; one that does not run finds it when it starts."""
        self.deaths_to_handle += self.router_runs

    def learn_of_death(self) -> None:
        """Have the router do what follows from deaths that it has just heard of."""
        self.deaths_to_handle -= 1
        self.router.processes.handle_deaths()

    def router_answers(self) -> bool:
        """Whether the router runs, and its disk lets it finish its turns."""
        return self.router_runs and not self.router_waits

    def start_console(self) -> None:
        """Start the console."""
        self.incarnations["console", 0] += 1
        self.console = Console(
            self.incarnations["console", 0], self.gauges, self.settings.store.limit, self.microseconds()
        )
        self.load(self.console)

    def kill_console(self) -> None:
        """Kill the console."""
        if self.console is not None:
            del self.followers[self.console.identity]
            self.console = None

    def record_gauges(self) -> None:
        """Have the console record the gauges."""
        if self.console is not None:
            running = self.running_shards()
            self.console.record(
                self.microseconds(), {index: Usage(process.incarnation, self.now, 1) for index, process in running}
            )

    def questions(self, role: str, index: int) -> Mapping[str, Question]:
        """Return the questions that an acceptor (by its seat) or a shard which runs answers now."""
        if role == "acceptor":
            acceptor = self.core(index)
            acceptor.state.now = self.now
            return questions_of_acceptor(acceptor)
        shard = self.shard(index)
        shard.state.now = self.microseconds()
        return questions_of_shard(shard)

    def runs(self, role: str, index: int) -> bool:
        """Whether the core of the process at a place runs; an acceptor's place is its seat."""
        match role:
            case "router":
                return self.router_runs
            case "shard":
                return self.shards[index] is not None
            case "acceptor":
                return self.acceptors[index] is not None
            case _:
                return self.console is not None

    def open_store(self, index: int, directory: Path) -> Store:
        """Open the store on a shard's disk."""
        return SimulatedStore(self.disks[index], directory, self.epoch)

    def start_shard(self, index: int, earlier: Mapping[int, Stop] | None = None) -> None:
        """Start a shard that reads and copies in the background."""
        self.jobs[index].clear()
        super().start_shard(index, earlier)
        shard = self.shards[index]
        assert shard is not None
        shard.core.state.wall_ahead = self.wall_ahead
        shard.in_background = lambda work, done: self.jobs[index].append((work, done))
        if shard.store is not None:
            shard.core.commits.flushed_later = True
            shard.core.stalls.set_aside = shard.store.set_aside

    def lose_power(self) -> None:
        """Kill all processes, lose unflushed records, and begin another epoch."""
        if self.router_runs:
            self.kill_router()
        self.router_disk.lose_power()
        self.kill_console()
        for index, _ in list(self.running_acceptors()):
            self.kill_acceptor(index)
        for index, _ in list(self.running_shards()):
            self.kill_shard(index, arriving=0, written=False)
        for line in (self.up, self.down, self.across, self.last_words):
            line.clear()
        for disk in self.disks:
            disk.lose_power()
        self.incarnations.clear()
        self.expected.clear()
        self.absent = {*range(self.places)} - self.stored_topology.shards.keys()
        self.epoch += 1
        self.gauges = self.new_gauges()
        self.deaths_to_handle = 0

    def report(self, index: int, peer: int, turn: int) -> None:
        """Report to another shard, which ends a turn then."""
        super().report(index, peer, turn)
        self.reported.add(peer)

    def write_commit(self, index: int) -> bool:
        """Have the disk write a shard's commit; return whether it could."""
        shard = self.shards[index]
        assert shard is not None and shard.writing is not None
        commit = shard.writing
        shard.core.state.now = self.microseconds()
        try:
            shard.commit()
        except StoreError as error:
            shard.core.commits.failed(commit, error.reason)
            return False
        return True

    def flush_store(self, index: int) -> bool:
        """Have the disk flush what a shard has written; return whether it could."""
        shard = self.shards[index]
        assert shard is not None and shard.store is not None
        core = shard.core
        core.state.now = self.microseconds()
        try:
            shard.store.sync()
        except StoreError as error:
            core.commits.not_flushed()
            core.gate.store_fails(UNFLUSHED, error.reason, core.state.now)
            return False
        core.gate.store_works(UNFLUSHED, core.state.now)
        core.commits.flushed()
        return True

    def do_job(self, index: int) -> None:
        """Do the next job of a shard's reading thread."""
        at_once(*self.jobs[index].popleft())

    def end_turn(self, index: int) -> float | None:
        """End an acceptor's turn; return in how many seconds another is due at the latest, None if none is."""
        acceptor = self.acceptors[index]
        if acceptor is None:
            return None
        acceptor.core.state.now = self.now
        self.send(index, acceptor, acceptor.core.finish_turn())
        self.write_out(acceptor)
        gates = acceptor.core.gates
        waits = [SETTLING_SECONDS] if acceptor.core.waits() else []
        if gates.metered.closed and (due := gates.metered.due()) is not None:
            waits.append(due)
        if gates.routing.waiting:
            waits.append(0.0)
        return min(waits, default=None)
