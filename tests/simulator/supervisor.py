"""The supervisor of a world: the real decisions, watchdog and search for deadlocks, over processes of the node.

    forked ──(its start takes a while, and waits for what it needs)──▶ begun ──(its report arrives)──▶ ready
      │                                                                 │
      └───────────────────── killed, or ended in order ◀────────────────┘

The end of a process is noticed a moment later, and only then do others hear of it.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Self

from ops.child import Child, State
from ops.deadlock_search import DeadlockSearch, QueueCheck, is_just_refused
from ops.errors import CommandError
from ops.flow.circles import FIRST_PART, Times, circles
from ops.forkserver import Forked
from ops.hangs import CHECK_SECONDS, HangWatch
from ops.places import Phase, Places
from penstock.bus.process_messages import ProcessMessage
from penstock.control.questions import answer
from penstock.limits.features import CREDIT
from penstock.node.node import Role
from penstock.process.pulse import Work
from penstock.settings.sections import WatchdogSettings
from shard.queue.queue_state import QueueState
from tests.simulator.engine import HANG_SECONDS, NETWORK_SECONDS, SUPERVISOR, Engine, Place
from tests.simulator.node import SimulatedNode

SILENT_SECONDS = 2.0
"""How long a process may hang."""
PATIENCE = 4.0
"""How long a process that is to end may take."""
START_SECONDS = 0.2
"""How long a process takes to start, and to look again for what it needs."""


class SimulatedProcess(Forked):
    """A process of the node; `has_begun` once its core runs. Its seat is its index, unless it is an acceptor beside its
    predecessor.
    """

    def __init__(
        self, pid: int, role: Role, index: int, incarnation: int, seat: int,
        on_signal: Callable[[SimulatedProcess, int], None],
    ) -> None:  # fmt: skip
        super().__init__(pid)
        self.role: Role = role
        self.index = index
        self.incarnation = incarnation
        self.seat = seat
        self.has_begun = False
        self.status: int | None = None
        self._on_signal = on_signal

    @property
    def place(self) -> Place:
        """The place of the process."""
        return self.role, self.seat

    def poll(self) -> int | None:
        """Return the exit status of a process that has ended."""
        return self.status

    def send_signal(self, number: signal.Signals) -> None:
        """Have the process receive a signal."""
        if self.status is None:
            self._on_signal(self, number)


class Supervisor:
    """The supervisor. `end` ends the process at a place, at once or in order, and everything that it does in the node;
    `late` has the seconds that the next process of a place takes longer to start.
    """

    def __init__(self, engine: Engine, end: Callable[[Place, bool], None]) -> None:
        self.engine = engine
        self.node = engine.node
        self.late: dict[Place, float] = {}
        self.processes: dict[Place, SimulatedProcess] = {}
        self.forks_from = 0.0
        """When processes can be started again."""
        self._end = end
        self._pids = count(1)
        self._chance = engine.chance("supervisor")
        self._due: float | None = None
        self.replacing: dict[int, int] = {}
        """The acceptors that are to be replaced: the incarnation of each place when that was asked for."""
        self.node.on_shard_asked = self.on_shard_asked
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Start the node: all processes that do not run yet."""
        node, plan = self.node, self.engine.plan
        shards = [Child("shard", index) for index in range(node.places) if index not in node.absent]
        acceptors = [Child("acceptor", index) for index in range(plan.acceptors)]
        children = [Child("router", 0), *shards, *acceptors, Child("console", 0)]
        self._due = None
        self.replacing.clear()
        self.places = Places(
            children, node.gauges, self.fork, self.publish, lambda role, index: "", PATIENCE, node.microseconds
        )
        self.places.phase = Phase.SERVING
        self.search = DeadlockSearch(node.gauges, node.settings.flow.deadlock_seconds, self.connected)
        self.watch = HangWatch(
            node.gauges, WatchdogSettings(seconds=SILENT_SECONDS), Path("/nowhere"), lambda pid: "running"
        )  # fmt: skip
        self.act()
        for process in self.processes.values():
            if process.has_begun:
                self.places.on_report(self.ready(process), self.engine.timeline.now)

    def act(self) -> None:
        """Reap processes that have ended, and carry out due restarts and kills."""
        timeline = self.engine.timeline
        if self.is_postponed(self.act):
            return
        self.places.reap(timeline.now)
        self.places.advance(timeline.now, can_fork=True)
        due = self.places.next_due(can_fork=True)
        if due is not None and due != self._due:
            self._due = due
            self.later(due - timeline.now, self.act_in_time)
        self.engine.arm(self.engine.after_turn[SUPERVISOR])

    def act_in_time(self) -> None:
        """Act at the time that was set."""
        self._due = None
        self.act()

    # Starts

    def fork(self, role: Role, index: int, incarnation: int) -> Forked:
        """Start a process; the node runs those of its first epoch already. OSError while none can be started."""
        if self.engine.timeline.now < self.forks_from:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        present = self.processes.get((role, index))
        beside = role == "acceptor" and present is not None and present.status is None
        seat = index + self.engine.plan.acceptors if beside else index
        process = SimulatedProcess(next(self._pids), role, index, incarnation, seat, self.on_signal)
        self.processes[process.place] = process
        process.has_begun = self.node.runs(*process.place)
        if not process.has_begun:
            if role == "shard":
                self.node.expected[index] = incarnation
            self.later(START_SECONDS + self.late.pop(process.place, 0.0), partial(self.begin, process))
        return process

    def begin(self, process: SimulatedProcess) -> None:
        """Have the core of a process run, once there is what it needs."""
        role, index = process.role, process.index
        if process.status is not None or self.engine.is_postponed(process.place, partial(self.begin, process)):
            return
        if self.lacks_something(role, index):
            self.later(START_SECONDS, partial(self.begin, process))
            return
        self.node.incarnations[role, index] = process.incarnation - 1
        match role:
            case "router":
                self.node.start_router()
            case "shard":
                self.node.start_shard(index)
                self.engine.flushed_at[index] = self.engine.timeline.now
            case "acceptor":
                self.node.start_acceptor(process.seat)
            case _:
                self.node.start_console()
        process.has_begun = True
        self.engine.narrate(f"{role} {process.seat} is there, incarnation {process.incarnation}")
        self.engine.turn_ends(process.place)
        self.engine.arm_all()
        self.soon(partial(self.report, self.ready(process)))

    def lacks_something(self, role: Role, index: int) -> bool:
        """Whether a process cannot start at present: the router needs its disk, a shard that too, all others need the
        router.
        """
        if self.node.router_disk.trouble:
            return True
        if role == "router":
            return False
        disk = self.node.disks[index] if role == "shard" and self.node.stores else None
        return not self.engine.router_answers() or (disk is not None and bool(disk.trouble or disk.unflushable))

    @staticmethod
    def ready(process: SimulatedProcess) -> ProcessMessage:
        """Return the report of a process that it is ready."""
        return ProcessMessage("ready", process.role, process.index, process.incarnation, process.pid)

    # Ends

    def on_signal(self, process: SimulatedProcess, number: int) -> None:
        """Have a process die; one that hangs does not end in order, and none writes its stack."""
        if number == signal.SIGKILL:
            self.engine.narrate(f"the supervisor kills {process.role} {process.seat}")
            self._end(process.place, False)
        elif number == signal.SIGTERM:
            self.engine.narrate(f"the supervisor ends {process.role} {process.seat}")
            self.end_in_order(process)

    def end_in_order(self, process: SimulatedProcess) -> None:
        """Have a process end because it is asked to, as soon as it does not hang."""
        again = partial(self.end_in_order, process)
        if process.status is None and not self.engine.is_postponed(process.place, again):
            self._end(process.place, True)

    def has_ended(self, place: Place) -> None:
        """Have the end of a process noticed soon."""
        self.processes[place].status = -signal.SIGKILL
        self.soon(self.act)

    def lose_power(self, seconds: float) -> None:
        """Begin another epoch when the machine has its power again. The node's processes have gone."""
        for process in self.processes.values():
            process.status = -signal.SIGKILL
        self.processes.clear()
        self.later(seconds, self.begin_epoch)

    # Messages

    def publish(self, message: ProcessMessage) -> None:
        """Have all processes receive an event."""
        event, role, index, number, _ = message
        if event == "gone":
            self.node.absent.add(index)
            self.engine.narrate(f"shard {index} is gone for good")
        self.node.announce(event, role, index, number)
        if role == "acceptor":
            self.soon(partial(self.announce_to, event, index, number))
        if event == "died":
            self.node.announce_death()

    def announce_to(self, event: str, acceptor: int, incarnation: int) -> None:
        """Have an acceptor receive an event about itself, if it runs."""
        place = self.place_of(acceptor, incarnation)
        if place is not None and not self.engine.is_postponed(
            place, partial(self.announce_to, event, acceptor, incarnation)
        ):
            self.node.receive_own_event(event, acceptor, incarnation)
            self.engine.turn_ends(place)

    def report(self, message: ProcessMessage) -> None:
        """Receive a report."""
        if self.is_postponed(partial(self.report, message)):
            return
        self.places.on_report(message, self.engine.timeline.now)
        self.act()

    def on_shard_asked(self, shard: int, there: bool) -> None:
        """Receive the router's request to start a shard, or to end one for good; it may ask again."""
        self.soon(partial(self.report, ProcessMessage("begin" if there else "end", "shard", shard, 0, 0)))

    # Rolling restarts

    def restart_acceptors(self) -> None:
        """Receive the router's request to replace all acceptors."""
        self.soon(self.receive_restart)

    def receive_restart(self) -> None:
        """Record which acceptors are to be replaced, and receive the request."""
        if not self.is_postponed(self.receive_restart):
            present = {child.index: child.incarnation for child in self.places.children if child.role == "acceptor"}
            self.replacing = present | self.replacing
            self.report(ProcessMessage("restart", "acceptor", 0, 0, 0))

    def restart_is_given_up(self) -> None:
        """Forget which acceptors were to be replaced: the log says why they are not."""
        self.replacing.clear()

    def are_replaced(self) -> None:
        """Check that all acceptors that were to be replaced have been, by a successor or after a death
        (docs/operations.md).
        """
        present = {child.index: child.incarnation for child in self.places.children if child.role == "acceptor"}
        left = [index for index, incarnation in self.replacing.items() if present[index] <= incarnation]
        assert not left, f"acceptors {left} were not replaced, and the log does not say why"

    def seat_of(self, index: int) -> int:
        """Return the seat of the acceptor that has a place, as the gauges show it."""
        place = self.place_of(index, self.node.gauges.process_read("acceptor", index).incarnation)
        return index if place is None else place[1]

    def place_of(self, index: int, incarnation: int) -> Place | None:
        """Return the place of an incarnation of an acceptor, if there is still a trace of it."""
        acceptors = [process for process in self.processes.values() if process.role == "acceptor"]
        found = [each.place for each in acceptors if (each.index, each.incarnation) == (index, incarnation)]
        return found[0] if found else None

    def seat_struck(self, number: int) -> int | None:
        """Return the seat of the acceptor that a fault concerns; None if it concerns a successor, and none runs."""
        index, beside = number % self.engine.plan.acceptors, number >= self.engine.plan.acceptors
        if not beside:
            return self.seat_of(index)
        successors = [child.process for child in self.places.processes if child not in self.places.children]
        found = [each.seat for each in successors if isinstance(each, SimulatedProcess) and each.index == index]
        return found[0] if found else None

    # Hangs

    def watch_for_hangs(self) -> None:
        """Have all processes beat but those that hang, and the watchdog check, again and again."""
        engine, now = self.engine, self.engine.timeline.now
        if engine.is_postponed(SUPERVISOR, self.watch_for_hangs):
            return
        engine.timeline.at(engine.weather.regularly(CHECK_SECONDS), self.watch_for_hangs)
        for process in self.processes.values():
            if process.status is None and not engine.hung(process.place):
                work = Work.SERVING if process.has_begun else Work.LOADING
                self.node.gauges.beat(process.role, process.index, process.incarnation, int(now * 1e6), work)
        if self.processes:
            self.watch.check(self.places.processes, now)

    # Deadlocks

    def search_for_deadlocks(self) -> None:
        """Search for deadlocks, again and again."""
        if self.engine.is_postponed(SUPERVISOR, self.search_for_deadlocks):
            return
        self.engine.timeline.at(self.engine.weather.regularly(self.search.interval), self.search_for_deadlocks)
        self.search.check(self.engine.timeline.now)

    def has_broken_a_deadlock(self, seconds: float) -> bool:
        """Whether a queue has acted against a deadlock within so many seconds: its producers use what it has lent."""
        acted = self.search._eager_until - self.node.settings.flow.deadlock_seconds
        return self.engine.timeline.now < acted + seconds

    def deadlocks_are_broken(self) -> None:
        """Check at rest that the search has broken each circle of several queues that has lasted for as long as it
        waits, or waits for a client that it has just refused, or has found that its queues report it only, or have lent
        what they may (docs/flow-control.md).
        """
        seconds = self.node.settings.flow.deadlock_seconds
        late = seconds / FIRST_PART + self.search.interval  # until the search looks at it
        channels = earlier(self.ask_acceptors("entangled"), "held_seconds", late)
        check = QueueCheck(self, self.node.gauges, channels, {})
        found = circles(
            channels,
            lambda cause: earlier(check.consumers(cause), "settled_seconds", late),
            lambda consumer: consumer["connection"],
            Times(seconds, seconds),
        )
        refused = {each["connection"] for each in channels if is_just_refused(each, seconds)}
        left = [
            str(circle)
            for circle in found
            if len({queue["id"] for queue in circle.queues}) > 1
            and circle.key not in self.search._known
            and not circle.key & refused
            and not any(is_relieved(self.node.state(queue["name"])) for queue in circle.queues)
        ]
        assert not left, f"nobody has broken: {left}"

    @contextmanager
    def connected(self) -> Iterator[Self]:
        """Connect to the node's processes."""
        yield self

    def ask(self, role: Role, index: int, question: str, **arguments: Any) -> Any:
        """Ask a process, which may change something because of that. CommandError if it does not answer."""
        place = (role, self.seat_of(index)) if role == "acceptor" else (role, index)
        process, engine = self.processes.get(place), self.engine
        if process is None or not process.has_begun or process.status is not None or engine.hung(place):
            raise CommandError(f"{role} {index} does not answer")
        outcome = answer(self.node.questions(*place), question, arguments)
        engine.turn_ends(place)
        if "error" in outcome:
            raise CommandError(outcome["error"])
        if question == "deadlock" and outcome["result"] == CREDIT:
            has_lent(self.node, index, arguments["id"])
        return outcome["result"]

    def ask_acceptors(self, question: str) -> list[dict[str, Any]]:
        """Ask all acceptors; return their lists, joined."""
        return [each for index in range(self.engine.plan.acceptors) for each in self.ask("acceptor", index, question)]

    # Time

    def soon(self, action: Callable[[], None]) -> None:
        """Do something after a moment."""
        self.later(self._chance.expovariate(1 / NETWORK_SECONDS), action)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later, unless the machine has lost its power by then."""
        epoch = self.node.epoch
        self.engine.timeline.after(seconds, lambda: action() if self.node.epoch == epoch else None)

    def is_postponed(self, action: Callable[[], None]) -> bool:
        """Whether the supervisor hangs; then it acts after that, unless the machine has lost its power by then."""
        hangs = self.engine.hung(SUPERVISOR)
        if hangs:
            self.later(HANG_SECONDS, action)
        return hangs

    def is_serving(self) -> bool:
        """Whether all processes live and are ready."""
        ready = bool(self.processes) and all(child.state is State.READY for child in self.places.children)
        renews = len(self.places.processes) > len(self.places.children)
        return ready and not renews and all(process.status is None for process in self.filling())

    def filling(self) -> list[SimulatedProcess]:
        """Return the processes that have places."""
        processes = [child.process for child in self.places.children]
        return [process for process in processes if isinstance(process, SimulatedProcess)]


def has_lent(node: SimulatedNode, shard: int, queue_id: int) -> None:
    """Check that a queue which acts against a deadlock has lent room (docs/flow-control.md)."""
    process = node.shards[shard]
    assert process is not None
    queue = process.core.state.queues[queue_id]
    assert queue.saturation.lent is not None, f"{queue.name} has only promised room"


def is_relieved(queue: QueueState) -> bool:
    """Whether a queue has room because of a deadlock."""
    return queue.exemption.yields or (queue.saturation.lent is not None and not queue.saturation.over)


def earlier(facts: list[dict[str, Any]], name: str, seconds: float) -> list[dict[str, Any]]:
    """Return facts with a time by this name as it was so many seconds ago."""
    return [{**each, name: None if each[name] is None else each[name] - seconds} for each in facts]
