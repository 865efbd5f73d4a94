"""What goes wrong in a world, and the supervisor's answer to it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ops.hangs import CHECK_SECONDS
from tests.simulator.connections import ClientConnection
from tests.simulator.disk import SimulatedDisk
from tests.simulator.engine import CONSOLE, LONGEST_SECONDS, ROUTER, Engine, Place
from tests.simulator.plan import Fault, Mishap
from tests.simulator.truth import Truth
from tests.simulator.watchdog import Watchdog
from tests.simulator.weather import BEGINS

BACK_SECONDS = 0.2
"""How long the supervisor takes to start a process again, beside what the fault says."""


class Faults:
    """Strikes processes, and starts them again; cuts clients off."""

    def __init__(self, engine: Engine, truth: Truth, connections: Mapping[int, ClientConnection]) -> None:
        self.engine = engine
        self.node = engine.node
        self.truth = truth
        self.connections = connections

    def begin(self) -> None:
        """Put the planned faults on the timeline."""
        self.node.on_shard_asked = self.change_shard
        self.watchdog = self.new_watchdog()
        self.engine.timeline.after(CHECK_SECONDS, self.check_hangs)
        for fault in self.engine.plan.faults:
            self.engine.timeline.after(fault.at, partial(self.strike, fault))

    def strike(self, fault: Fault) -> None:
        """Have a fault happen."""
        engine, place = self.engine, (fault.role, fault.number)
        now = engine.timeline.now
        engine.narrate(f"{fault.role} {fault.number} {fault.mishap} for {fault.seconds} s")
        match fault.mishap:
            case Mishap.KILL:
                self.die(fault)
            case Mishap.HANG:
                engine.hangs[place] = max(engine.hangs.get(place, 0.0), now + fault.seconds)
            case Mishap.FULL | Mishap.UNFLUSHABLE | Mishap.LIES:
                self.trouble_disk(fault)
            case Mishap.ROT | Mishap.MISDIRECT | Mishap.LOSE_WRITE:
                self.harm_disk(fault)
            case Mishap.POWER:
                self.lose_power(fault.seconds)
            case Mishap.SET_CLOCK:
                self.node.set_wall_clock(engine.chance(f"clock {fault}").choice([-3600.0, -1.0, 1.0, 3600.0]))
            case Mishap.CUT:
                self.cut(fault.number, fault.seconds)

    def die(self, fault: Fault) -> None:
        """Have a process die."""
        engine, place = self.engine, (fault.role, fault.number)
        chance = engine.chance(f"death {fault}")
        if self.kill(place, chance.randrange(4), chance.random() < 0.5):
            self.truth.died(fault.role, fault.number, engine.timeline.now)
            engine.timeline.after(BACK_SECONDS + fault.seconds, partial(self.restart, place))
            engine.arm_all()

    def places(self) -> list[Place]:
        """Return the places of all processes, in the order in which they start."""
        plan = self.engine.plan
        shards = [("shard", index) for index in range(self.node.places) if index not in self.node.absent]
        return [ROUTER, *shards, *(("acceptor", index) for index in range(plan.acceptors)), CONSOLE]

    def lose_power(self, seconds: float) -> None:
        """Have the machine lose power for a while."""
        engine, plan = self.engine, self.engine.plan
        for acceptor in range(plan.acceptors):
            self.acceptor_is_gone(acceptor)
            self.truth.died("acceptor", acceptor, engine.timeline.now)
        flushed_at = [at for shard, at in enumerate(engine.flushed_at) if shard not in self.node.absent]
        self.truth.lost_power(engine.timeline.now, min(flushed_at))
        self.node.lose_power()
        self.watchdog = self.new_watchdog()
        engine.hangs.clear()
        for shard in range(self.node.places):
            engine.forget_flushes(shard)
        for place in self.places():
            engine.timeline.after(BACK_SECONDS + seconds, partial(self.restart, place))

    def harm_disk(self, fault: Fault) -> None:
        """Have a disk damage a message."""
        disk = self.node.disks[fault.number]
        harms = {Mishap.ROT: disk.rot, Mishap.MISDIRECT: disk.misdirect, Mishap.LOSE_WRITE: disk.lose_write}
        queue_id = harms[fault.mishap](self.engine.chance(f"harm {fault}"))
        queue = None if queue_id is None else self.node.router.topology.queue_by_id(queue_id)
        if queue is not None:
            self.truth.may_lose(queue.name)

    def trouble_disk(self, fault: Fault) -> None:
        """Have a disk refuse something for a while, or lie."""
        if fault.role == "router disk":
            self.node.router_disk.begin_trouble()
            self.engine.timeline.after(fault.seconds, self.node.router_disk.end_trouble)
            return
        disk = self.node.disks[fault.number]
        if fault.mishap is Mishap.FULL:
            disk.trouble = "No space left on device"
        elif fault.mishap is Mishap.UNFLUSHABLE:
            disk.unflushable = "Input/output error"
        else:
            disk.lies = True
        self.engine.timeline.after(fault.seconds, partial(self.mend_disk, disk))

    def mend_disk(self, disk: SimulatedDisk) -> None:
        """Have a disk take everything again."""
        disk.trouble = disk.unflushable = None
        disk.lies = False

    def cut(self, number: int, seconds: float) -> None:
        """Cut a client off for a while."""
        if number in self.connections:
            timeline = self.engine.timeline
            self.engine.cuts[number] = max(self.engine.cuts.get(number, 0.0), timeline.now + seconds)
            self.connections[number].cut()
            timeline.after(seconds, partial(self.heal, number))

    def heal(self, number: int) -> None:
        """Connect a client to the network again, unless it is cut off for longer."""
        self.connections[number].heal()
        self.engine.arm_all()

    def acceptor_is_gone(self, acceptor: int) -> None:
        """Have the clients of an acceptor notice that."""
        for connection in self.connections.values():
            if connection.is_connected() and connection.client.acceptor == acceptor:
                connection.is_cut_off()

    def runs(self, place: Place) -> bool:
        """Whether the process at a place runs."""
        role, number = place
        node = self.node
        if role == "router":
            return node.router_lives
        if role == "console":
            return node.console is not None
        return (node.shards if role == "shard" else node.acceptors)[number] is not None

    def kill(self, place: Place, arriving: int, written: bool) -> bool:
        """Kill a process; return whether it ran. `arriving` of its last messages arrive, and its commit if it was
        `written`.
        """
        role, number = place
        if not self.runs(place):
            return False
        match role:
            case "router":
                self.kill_router(arriving, written)
            case "shard":
                self.node.kill_shard(number, arriving, written and self.node.disks[number].trouble is None)
                self.engine.forget_flushes(number)
                self.engine.hangs.pop(("disk", number), None)
            case "acceptor":
                self.acceptor_is_gone(number)
                self.node.kill_acceptor(number)
            case _:
                self.node.kill_console()
        self.engine.hangs.pop(place, None)
        return True

    def kill_router(self, arriving: int, stored: bool) -> None:
        """Kill the router; with `stored` between its store and its followers, with a turn of all that was asked."""
        if stored:
            for follower in self.node.followers.values():
                self.node.receive_requests(follower)
        self.node.kill_router(arriving, stored)

    def restart(self, place: Place) -> None:
        """Start a process again unless it runs, or once what it needs is there: the router its disk, a shard that too,
        all others the router.
        """
        if self.runs(place) or (place[0] == "shard" and place[1] in self.node.absent):
            return
        if self.lacks_something(place):
            self.engine.timeline.after(BACK_SECONDS, partial(self.restart, place))
            return
        role, number = place
        match role:
            case "router":
                self.node.start_router()
            case "shard":
                self.node.start_shard(number)
                self.engine.flushed_at[number] = self.engine.timeline.now
            case "acceptor":
                self.node.start_acceptor(number)
            case _:
                self.node.start_console()
        self.engine.narrate(f"{role} {number} is back")
        self.engine.turn_ends(place)
        self.engine.arm_all()

    def lacks_something(self, place: Place) -> bool:
        """Whether a process cannot start at present."""
        role, number = place
        if self.node.router_disk.trouble:
            return True
        if role == "router":
            return False
        disk = self.node.disks[number] if role == "shard" and self.node.stores else None
        return not self.engine.router_answers() or (disk is not None and bool(disk.trouble or disk.unflushable))

    def new_watchdog(self) -> Watchdog:
        """Return the watchdog of an epoch."""
        return Watchdog(self.node.gauges, self.kill_hung)

    def check_hangs(self) -> None:
        """Have the watchdog check, again and again."""
        engine = self.engine
        engine.timeline.at(engine.weather.regularly(CHECK_SECONDS), self.check_hangs)
        incarnations = self.node.incarnations()
        hung = [each for each in incarnations if engine.hangs.get(each[:2], 0.0) > engine.timeline.now]
        self.watchdog.check(incarnations, hung, engine.timeline.now)

    def kill_hung(self, role: str, index: int) -> None:
        """The watchdog kills a process."""
        self.engine.narrate(f"the watchdog kills {role} {index}")
        self.die(Fault(self.engine.timeline.now, Mishap.KILL, role, index, 0.0))

    def change_shard(self, shard: int, there: bool) -> None:
        """The router asks the supervisor to start a shard, or to end one for good; it may ask again."""
        absent = self.node.absent
        if there and shard in absent:
            absent.remove(shard)
            self.engine.timeline.after(BACK_SECONDS, partial(self.restart, ("shard", shard)))
        elif not there and self.runs(("shard", shard)):
            self.node.remove_shard(shard)
            self.engine.forget_flushes(shard)
            self.engine.narrate(f"shard {shard} is gone for good")
            self.engine.arm_all()

    def are_over(self, seconds: float) -> bool:
        """Whether everything runs, and all faults and storms so far have been over for some seconds."""
        node, plan, now = self.node, self.engine.plan, self.engine.timeline.now - BEGINS
        times = [(fault.at, fault.at + fault.seconds + BACK_SECONDS) for fault in plan.faults]
        times += [(storm.begins, storm.ends + LONGEST_SECONDS) for storm in plan.storms]
        shards = [shard for index, shard in enumerate(node.shards) if index not in node.absent]
        running = node.router_answers() and None not in (*shards, *node.acceptors, node.console)
        return running and all(ends + seconds <= now or begins > now for begins, ends in times)

    def end(self) -> None:
        """End all hangs, and start everything that is dead."""
        self.engine.hangs.clear()
        self.node.router_disk.end_trouble()
        self.node.router_waits = False
        for disk in self.node.disks:
            self.mend_disk(disk)
        self.engine.cuts.clear()
        for connection in self.connections.values():
            connection.heal()
        for place in self.places():
            self.restart(place)
