"""What goes wrong in a world, and the supervisor's answer to it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tests.simulator.engine import ROUTER, Engine, Place
from tests.simulator.person import Person
from tests.simulator.plan import Fault, Mishap
from tests.simulator.truth import Truth

BACK_SECONDS = 0.2
"""How long the supervisor takes to start a process again, beside what the fault says."""


class Faults:
    """Strikes processes, and starts them again; cuts clients off."""

    def __init__(self, engine: Engine, truth: Truth, clients: Mapping[int, Person]) -> None:
        self.engine = engine
        self.node = engine.node
        self.truth = truth
        self.clients = clients

    def begin(self) -> None:
        """Put the planned faults on the timeline."""
        for fault in self.engine.plan.faults:
            self.engine.timeline.after(fault.at, partial(self.strike, fault))

    def strike(self, fault: Fault) -> None:
        """Have a fault happen."""
        engine, place = self.engine, (fault.role, fault.number)
        now = engine.timeline.now
        engine.narrate(f"{fault.role} {fault.number} {fault.mishap} for {fault.seconds} s")
        if fault.mishap is Mishap.HANG:
            engine.hangs[place] = max(engine.hangs.get(place, 0.0), now + fault.seconds)
            return
        if fault.mishap is Mishap.FAIL:
            engine.failing[fault.number] = now + fault.seconds
            return
        if fault.mishap is Mishap.CUT:
            self.cut(fault.number, fault.seconds)
            return
        chance = engine.chance(f"death {fault}")
        if self.kill(place, chance.randrange(4), chance.random() < 0.5):
            self.truth.died(fault.role, fault.number, now)
            engine.timeline.after(BACK_SECONDS + fault.seconds, partial(self.restart, place))
            engine.arm_all()

    def cut(self, number: int, seconds: float) -> None:
        """Cut a client off for a while."""
        if number in self.clients:
            timeline = self.engine.timeline
            self.engine.cuts[number] = max(self.engine.cuts.get(number, 0.0), timeline.now + seconds)
            self.clients[number].cut()
            timeline.after(seconds, partial(self.heal, number))

    def heal(self, number: int) -> None:
        """Connect a client to the network again, unless it is cut off for longer."""
        self.clients[number].heal()
        self.engine.arm_all()

    def acceptor_is_gone(self, acceptor: int) -> None:
        """Have the clients of an acceptor notice that."""
        for person in self.clients.values():
            if person.is_connected() and person.client.acceptor == acceptor:
                person.is_cut_off()

    def kill(self, place: Place, arriving: int, written: bool) -> bool:
        """Kill a process; return whether it ran. `arriving` of its last messages arrive, and its commit if it was
        `written`.
        """
        role, number = place
        if role == "router":
            if not self.node.router_lives:
                return False
            self.node.kill_router(arriving)
            return True
        if (self.node.shards if role == "shard" else self.node.acceptors)[number] is None:
            return False
        if role == "shard":
            self.node.kill_shard(number, arriving, written)
            self.engine.hangs.pop(("disk", number), None)
        else:
            self.acceptor_is_gone(number)
            self.node.kill_acceptor(number)
        self.engine.hangs.pop(place, None)
        return True

    def restart(self, place: Place) -> None:
        """Start a process again unless it runs, once the router does."""
        role, number = place
        node = self.node
        if role == "router":
            if node.router_lives:
                return
            node.start_router()
        elif not node.router_lives:
            self.engine.timeline.after(BACK_SECONDS, partial(self.restart, place))
            return
        elif role == "shard":
            if node.shards[number] is not None:
                return
            node.start_shard(number)
        else:
            if node.acceptors[number] is not None:
                return
            node.start_acceptor(number)
        self.engine.narrate(f"{role} {number} is back")
        self.engine.turn_ends(place)
        self.engine.arm_all()

    def end(self) -> None:
        """End all hangs, and start everything that is dead."""
        plan = self.engine.plan
        self.engine.hangs.clear()
        self.engine.failing.clear()
        self.engine.cuts.clear()
        for person in self.clients.values():
            person.heal()
        self.restart(ROUTER)
        for shard in range(plan.shards):
            self.restart(("shard", shard))
        for acceptor in range(plan.acceptors):
            self.restart(("acceptor", acceptor))
