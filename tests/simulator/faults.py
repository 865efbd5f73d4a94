"""What goes wrong in a world."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tests.simulator.connections import ClientConnection
from tests.simulator.disk import SimulatedDisk
from tests.simulator.engine import LONGEST_SECONDS, Engine, Place
from tests.simulator.farewells import Farewells
from tests.simulator.plan import Fault, Mishap
from tests.simulator.supervisor import START_SECONDS, Supervisor
from tests.simulator.truth import Truth
from tests.simulator.weather import BEGINS


class Faults:
    """Strikes processes, disks and the machine; cuts clients off."""

    def __init__(self, engine: Engine, truth: Truth, connections: Mapping[int, ClientConnection]) -> None:
        self.engine = engine
        self.node = engine.node
        self.truth = truth
        self.connections = connections
        self.supervisor = Supervisor(engine, self.end_process)
        self.farewells = Farewells(engine, truth, self.kill)

    def begin(self) -> None:
        """Put the planned faults on the timeline."""
        self.supervisor.watch_for_hangs()
        self.supervisor.search_for_deadlocks()
        for fault in self.engine.plan.faults:
            self.engine.timeline.after(fault.at, partial(self.strike, fault))

    def strike(self, fault: Fault) -> None:
        """Have a fault happen, unless all are over."""
        if self.engine.weather.calm:
            return
        if fault.role == "acceptor":
            seat = self.supervisor.seat_struck(fault.number)
            if seat is None:
                return
            fault = fault._replace(number=seat)
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
            case Mishap.UNFORKABLE:
                self.supervisor.forks_from = now + fault.seconds
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
        self.supervisor.late[place] = fault.seconds
        if self.kill(place, chance.randrange(4), chance.random() < 0.5):
            self.truth.died(fault.role, fault.number, engine.timeline.now)
            engine.arm_all()

    def end_process(self, place: Place, in_order: bool) -> None:
        """Have a process end because the supervisor wants it."""
        if in_order and place[0] == "acceptor" and self.node.acceptors[place[1]] is not None:
            self.farewells.begin(place[1])
        elif in_order:
            self.kill(place, arriving=1 << 30, written=True)
            self.engine.arm_all()
        else:
            self.die(Fault(self.engine.timeline.now, Mishap.KILL, *place, 0.0))

    def lose_power(self, seconds: float) -> None:
        """Have the machine lose power for a while."""
        engine = self.engine
        for acceptor in range(len(self.node.acceptors)):
            self.acceptor_is_gone(acceptor)
            self.truth.died("acceptor", acceptor, engine.timeline.now)
        flushed_at = [at for shard, at in enumerate(engine.flushed_at) if shard not in self.node.absent]
        self.truth.lost_power(engine.timeline.now, min(flushed_at))
        self.node.lose_power()
        engine.hangs.clear()
        for shard in range(self.node.places):
            engine.forget_flushes(shard)
        self.supervisor.lose_power(seconds)

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

    def kill(self, place: Place, arriving: int, written: bool) -> bool:
        """Kill a process; return whether there was one. `arriving` of its last messages arrive, and its commit if it
        was `written`.
        """
        role, number = place
        process = self.supervisor.processes.get(place)
        if process is None or process.status is not None:
            return False
        if process.has_begun:
            self.end_core(role, number, arriving, written)
        elif role == "shard":
            self.node.cut_lines(number)
        self.engine.hangs.pop(place, None)
        self.supervisor.has_ended(place)
        return True

    def end_core(self, role: str, number: int, arriving: int, written: bool) -> None:
        """End the core of a process."""
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

    def kill_router(self, arriving: int, stored: bool) -> None:
        """Kill the router; with `stored` between its store and its followers, with a turn of all that was asked."""
        if stored:
            for follower in self.node.followers.values():
                self.node.receive_requests(follower)
        self.node.kill_router(arriving, stored)

    def are_over(self, seconds: float) -> bool:
        """Whether everything runs, and all faults and storms so far have been over for some seconds."""
        node, plan, now = self.node, self.engine.plan, self.engine.timeline.now - BEGINS
        times = [(fault.at, fault.at + fault.seconds + START_SECONDS) for fault in plan.faults]
        times += [(storm.begins, storm.ends + LONGEST_SECONDS) for storm in plan.storms]
        running = node.router_answers() and self.supervisor.is_serving()
        return running and all(ends + seconds <= now or begins > now for begins, ends in times)

    def end(self) -> None:
        """End all faults. The supervisor starts dead processes again."""
        self.engine.hangs.clear()
        self.supervisor.forks_from = 0.0
        self.node.router_disk.end_trouble()
        self.node.router_waits = False
        for disk in self.node.disks:
            self.mend_disk(disk)
        self.engine.cuts.clear()
        for connection in self.connections.values():
            connection.heal()
