"""The engine of a world: moves what waits in the node's lines, and ends the turns of its processes, in virtual time.

An **activity** moves what waits in one line: a turn between two processes, a change of the topology, bytes that a
client has written. While something waits, the activity is armed with a delay drawn for it; when its time comes it moves
one thing. So nothing overtakes within a line, and everything may overtake between two.

A process that receives something ends its turn soon after; what it receives until then belongs to the same turn. While
a process hangs, it neither receives nor ends a turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from random import Random
from typing import Any

from console.process import RECORD_SECONDS
from router.process import POLL_SECONDS
from shard.store_work import RETRY_SECONDS
from tests.simulator.joined.client import Client
from tests.simulator.node import SimulatedNode
from tests.simulator.plan import Plan
from tests.simulator.timeline import Timeline
from tests.simulator.weather import BEGINS, Weather

LINK_SECONDS, TURN_SECONDS, DISK_SECONDS, NETWORK_SECONDS = 0.0002, 0.0001, 0.002, 0.0005
"""The usual delay of a message between processes, of the end of a turn, of a commit, and of bytes from a client."""
FLUSH_SECONDS = 0.02
"""The usual time from a commit to the beginning of a flush."""
LONGEST_SECONDS = 5.0
"""The longest delay, however slow everything is."""
HANG_SECONDS = 0.5
"""How long a process hangs at most before it is seen that it hangs no more."""
NEVER = 1e12
SOONEST_SECONDS = 0.001
BROADCASTS = (*("keep",) * 17, "lost", "late", "again")
"""What happens to the broadcasts of a shard's turn."""
READS = (1 << 30, 1 << 30, 4096, 100)
"""The most bytes that an acceptor reads at once."""
FLOW = {"parking_bytes": 30_000, "pair_count": 64, "pair_bytes": 65536, "consumer_window_bytes": 65536}
"""Settings of flow control: small, so that few messages reach every limit."""

Place = tuple[str, int]
"""A process, or the disk of a shard: its role and its number, of an acceptor its seat."""
ROUTER: Place = ("router", 0)
CONSOLE: Place = ("console", 0)
SUPERVISOR: Place = ("supervisor", 0)


@dataclass
class Activity:
    """Whether anything `waits`, how to `move` one thing, and how long that usually takes, in seconds. It stands still
    while the process at its place hangs.
    """

    name: str
    place: Place
    seconds: float
    waits: Callable[[], Any]
    move: Callable[[], Any]
    seed: str
    armed: bool = False

    @cached_property
    def chance(self) -> Random:
        """Its random numbers, made on first use: many activities have nothing to move in a play."""
        return Random(self.seed)


class Engine:
    """The node of a plan, in motion. `story` has what happened, as (seconds, words), if it is `narrated`."""

    def __init__(self, plan: Plan, narrated: bool = False) -> None:
        self.plan = plan
        self.narrated = narrated
        self.story: list[tuple[float, str]] = []
        self.timeline = Timeline(BEGINS)
        self.weather = Weather(plan, self.timeline)
        self.node = SimulatedNode(
            plan.acceptors, plan.shards, plan.spare, FLOW, plan.stores, plan.bounds, self.chance("node"),
            plan.reads_topology, plan.renews,
        )  # fmt: skip
        self.node.commits = False
        self.hangs: dict[Place, float] = {}
        self.cuts: dict[int, float] = {}
        self.resting: dict[int, float] = {}
        """Until when a shard waits before it tries a failed commit again."""
        self.unflushed: dict[int, float] = {}
        """The shards that have something to flush, and when they may begin."""
        self.flushing: dict[int, float] = {}
        """The shards whose disk flushes, and since when."""
        self.flushed_at = [BEGINS] * self.node.places
        """When the last flush began that succeeded, by shard."""
        self.wakes: dict[int, float] = {}
        """When each shard is to wake next."""
        self.ending: set[Place] = set()
        self.overdue: set[Place] = set()
        """The places whose turns were to end while their processes hung."""
        self.metering: set[int] = set()
        self.broadcasts = self.chance("broadcasts")
        self.activities: list[Activity] = []
        self.reads: dict[int, Activity] = {}
        """What each client writes, by its number in the plan."""
        self.after_turn: dict[Place, list[Activity]] = defaultdict(list)
        self.make_activities()

    def narrate(self, words: str) -> None:
        """Add a sentence to the story."""
        if self.narrated:
            self.story.append((self.timeline.now - BEGINS, words))

    def chance(self, name: str) -> Random:
        """Return random numbers that depend on the seed and a name alone."""
        return Random(self.seed(name))

    def seed(self, name: str) -> str:
        """Return the seed of the random numbers of a name."""
        return f"{self.plan.seed} {name}"

    # Activities

    def add(
        self, name: str, place: Place, made_by: Place, waits: Callable[[], Any], move: Callable[[], Any],
        seconds: float = LINK_SECONDS,
    ) -> None:  # fmt: skip
        """Add an activity at a place; what it moves is made by a process in its turns."""
        activity = Activity(name, place, seconds, waits, move, self.seed(name))
        self.activities.append(activity)
        self.after_turn[made_by].append(activity)

    def make_activities(self) -> None:
        """Add the activities between processes."""
        for acceptor in range(len(self.node.acceptors)):
            self.follow_others(("acceptor", acceptor))
            for shard in range(self.node.places):
                self.connect(acceptor, shard)
        self.add(
            "events router 0", ROUTER, SUPERVISOR,
            lambda: self.node.router_runs and self.node.deaths_to_handle > 0, self.node.learn_of_death,
        )  # fmt: skip
        self.follow_router("console 0", CONSOLE, lambda: self.node.console)
        for shard in range(self.node.places):
            self.follow_others(("shard", shard))
            self.use_disk(shard)
            for peer in range(self.node.places):
                self.connect_shards(shard, peer)

    def connect(self, acceptor: int, shard: int) -> None:
        """Add the two lines between an acceptor and a shard."""
        node, down = self.node, (shard, acceptor)
        up = acceptor, shard
        self.add(
            f"up {acceptor} {shard}", ("shard", shard), ("acceptor", acceptor),
            lambda: node.shards[shard] is not None and (node.up[up] or node.last_words[up]),
            lambda: node.send_up(*up, last=True) or node.send_up(*up),
        )  # fmt: skip
        self.add(
            f"down {shard} {acceptor}", ("acceptor", acceptor), ("shard", shard),
            lambda: node.down[down], lambda: self.send_down(*down),
        )  # fmt: skip

    def send_down(self, shard: int, acceptor: int) -> bool:
        """Deliver the next turn of a shard to an acceptor; its broadcasts may be lost, late or repeated."""
        all_arrive = self.weather.calm or self.weather.lull_ends() > self.timeline.now
        how = "keep" if all_arrive else self.broadcasts.choice(BROADCASTS)
        if how in ("late", "again"):
            delay = self.broadcasts.expovariate(1 / NETWORK_SECONDS)
            self.timeline.after(delay, partial(self.deliver_broadcast, acceptor))
        return self.node.send_down(shard, acceptor, how)

    def deliver_broadcast(self, acceptor: int) -> None:
        """Deliver a late broadcast to an acceptor."""
        if not self.is_postponed(("acceptor", acceptor), partial(self.deliver_broadcast, acceptor)):
            self.node.stray(acceptor)
            self.turn_ends(("acceptor", acceptor))

    def connect_shards(self, shard: int, peer: int) -> None:
        """Add the line from a shard to another."""
        node, across = self.node, (shard, peer)
        self.add(
            f"across {shard} {peer}", ("shard", peer), ("shard", shard),
            lambda: node.shards[peer] is not None and node.across[across], lambda: node.send_across(*across),
        )  # fmt: skip

    def use_disk(self, shard: int) -> None:
        """Add a shard's commits and the jobs of its reading thread."""
        node = self.node

        def writes() -> bool:
            incarnation = node.shards[shard]
            return incarnation is not None and incarnation.writing is not None

        def reads() -> bool:
            return node.shards[shard] is not None and bool(node.jobs[shard])

        place, disk = ("shard", shard), ("disk", shard)

        def flush_is_due() -> bool:
            due = shard in self.unflushed and self.unflushed[shard] <= self.timeline.now
            return due and shard not in self.flushing and node.shards[shard] is not None

        self.add(f"disk {shard}", disk, place, writes, lambda: self.write(shard), DISK_SECONDS)
        self.add(
            f"begins to flush {shard}", place, place, flush_is_due, lambda: self.begin_flush(shard), FLUSH_SECONDS
        )  # fmt: skip
        self.add(
            f"flushes {shard}", disk, place, lambda: shard in self.flushing, lambda: self.flush(shard), DISK_SECONDS
        )  # fmt: skip
        self.add(f"reader {shard}", place, place, reads, lambda: node.do_job(shard), DISK_SECONDS)

    def follow_others(self, place: Place) -> None:
        """Add the lines between a process, the supervisor and the router."""
        node, (role, number) = self.node, place
        running: list[Any] = node.acceptors if role == "acceptor" else node.shards
        meet = node.meet if role == "acceptor" else node.mourn
        self.add(
            f"events {role} {number}", place, SUPERVISOR,
            lambda: running[number] is not None and running[number].events, lambda: meet(number),
        )  # fmt: skip
        self.follow_router(f"{role} {number}", place, lambda: running[number])

    def follow_router(self, name: str, place: Place, process: Callable[[], Any]) -> None:
        """Add the lines between the process at a place, while there is one, and the router."""
        node = self.node

        def waits(line: str) -> bool:
            return process() is not None and bool(getattr(process(), line))

        self.add(f"changes {name}", place, ROUTER, lambda: waits("changes"), lambda: node.change(process()))
        self.add(f"replies {name}", place, ROUTER, lambda: waits("replies"), lambda: node.reply(process()))
        self.add(
            f"requests {name}", ROUTER, place, lambda: node.router_runs and waits("asked"),
            lambda: node.receive_requests(process()),
        )  # fmt: skip

    def write(self, shard: int) -> None:
        """Write a shard's commit; if its disk refuses that, the shard retries after a while."""
        if self.node.write_commit(shard):
            self.unflushed.setdefault(shard, self.timeline.now)
        else:
            self.resting[shard] = self.timeline.now + RETRY_SECONDS
            self.timeline.after(RETRY_SECONDS, partial(self.turn_ends, ("shard", shard)))
        self.turn_ends(("shard", shard))

    def begin_flush(self, shard: int) -> bool:
        """Begin to flush what a shard has written; that alone is no reason for a turn."""
        incarnation = self.node.shards[shard]
        assert incarnation is not None
        del self.unflushed[shard]
        self.flushing[shard] = self.timeline.now
        incarnation.core.commits.flush_begins()
        self.arm(self.after_turn["shard", shard])
        return False

    def flush(self, shard: int) -> None:
        """Flush what a shard has written; if its disk refuses that, the shard retries after a while."""
        began = self.flushing.pop(shard)
        if self.node.flush_store(shard):
            if not self.node.disks[shard].lies:
                self.flushed_at[shard] = began
        else:
            self.unflushed[shard] = self.timeline.now + RETRY_SECONDS
            self.timeline.after(RETRY_SECONDS, partial(self.turn_ends, ("shard", shard)))
        self.turn_ends(("shard", shard))

    def forget_flushes(self, shard: int) -> None:
        """A shard has died: its disk has what it had."""
        self.unflushed.pop(shard, None)
        self.flushing.pop(shard, None)
        self.resting.pop(shard, None)

    def is_cut(self, client: int) -> bool:
        """Whether a client is cut off from the network."""
        return self.cuts.get(client, 0.0) > self.timeline.now

    def arm_all(self) -> None:
        """Arm all activities that have something to move."""
        self.arm(self.activities)
        self.arm(self.reads.values())

    def arm(self, activities: Iterable[Activity]) -> None:
        """Arm those of some activities that have something to move."""
        for activity in activities:
            if not activity.armed and activity.waits():
                self.arm_one(activity)

    def arm_one(self, activity: Activity) -> None:
        """Arm an activity, after a delay drawn for it."""
        activity.armed = True
        delay = activity.chance.expovariate(1 / (activity.seconds * self.weather.slowness()))
        self.timeline.after(min(delay, LONGEST_SECONDS), partial(self.happens, activity))

    def happens(self, activity: Activity) -> None:
        """Have an activity move one thing, after any hang of its process."""
        if self.is_postponed(activity.place, partial(self.happens, activity)):
            return
        activity.armed = False
        if activity.waits():
            if activity.move() is not False:
                self.turn_ends(activity.place)
            if activity.waits() and not activity.armed:
                self.arm_one(activity)

    def hung(self, place: Place) -> bool:
        """Whether a process hangs now."""
        return self.hangs.get(place, 0.0) > self.timeline.now

    def is_postponed(self, place: Place, action: Callable[[], None]) -> bool:
        """Whether a process hangs; then the action happens after that, which may be sooner than it seems now."""
        hung = self.hung(place)
        if hung:
            self.timeline.at(min(self.hangs[place], self.timeline.now + HANG_SECONDS), action)
        return hung

    # Turns and time

    def turn_ends(self, place: Place, seconds: float = TURN_SECONDS) -> None:
        """Have a process end its turn soon, unless it will anyway. One that has hung does so sooner than it looks again
        whether it hangs.
        """
        overdue = place in self.overdue and not self.hung(place)
        if place[0] not in ("disk", "console") and (place not in self.ending or overdue):
            self.ending.add(place)
            self.overdue.discard(place)
            self.timeline.after(seconds, partial(self.end_turn, place))

    def end_turn(self, place: Place) -> None:
        """End a process's turn."""
        if self.is_postponed(place, partial(self.end_turn, place)):
            self.overdue.add(place)
            return
        self.ending.discard(place)
        self.overdue.discard(place)
        role, number = place
        if role == "acceptor":
            self.end_turn_of_acceptor(number)
        elif role == "shard":
            self.end_turn_of_shard(number)
        else:
            self.end_turn_of_router()
        self.arm(self.after_turn[place])

    def end_turn_of_router(self) -> None:
        """End the router's turn, as far as its disk lets it."""
        if self.node.router_runs:
            self.node.publish_changes()

    def end_turn_of_acceptor(self, number: int) -> None:
        """End an acceptor's turn; have it serve the gates that open with time."""
        due = self.node.end_turn(number)
        if due is not None and number not in self.metering:
            self.metering.add(number)
            self.timeline.after(max(due, 1.0 if self.weather.is_quiet() else TURN_SECONDS), partial(self.meter, number))
        place = "acceptor", number
        self.arm([read for read in self.reads.values() if not read.armed and read.place == place])

    def meter(self, number: int) -> None:
        """Serve an acceptor's gates that open with time and its long routes, and end the turn."""
        self.metering.discard(number)
        acceptor = self.node.acceptors[number]
        if acceptor is not None:
            acceptor.core.state.now = self.timeline.now
            acceptor.core.gates.metered.serve()
            acceptor.core.gates.routing.serve()
            self.turn_ends(("acceptor", number), 0.0)

    def end_turn_of_shard(self, number: int) -> None:
        """End a shard's turn; have its store begin a commit, and the shard wake when something is due."""
        self.node.finish_shard(number)
        for peer in sorted(self.node.reported):
            self.turn_ends(("shard", peer))
        self.node.reported.clear()
        shard = self.node.shards[number]
        if shard is None:
            return
        if shard.writing is None and self.resting.get(number, 0.0) <= self.timeline.now:
            self.node.commit_shard(number)
        if shard.core.commits.awaited:
            self.unflushed.setdefault(number, self.timeline.now)
        due = max(
            shard.core.next_wake() / 1e6, self.timeline.now + (1.0 if self.weather.is_quiet() else SOONEST_SECONDS)
        )
        if due < self.wakes.get(number, NEVER):
            self.wakes[number] = due
            self.timeline.at(due, partial(self.wake, number, due))

    def wake(self, number: int, due: float) -> None:
        """End a shard's turn, unless it was to wake earlier, and has."""
        if self.wakes.get(number) == due:
            del self.wakes[number]
            self.turn_ends(("shard", number))

    def begin(self) -> None:
        """Begin the turns and the periodic work of all processes."""
        for acceptor in range(len(self.node.acceptors)):
            self.turn_ends(("acceptor", acceptor))
            self.timeline.after(self.node.settings.flow.recheck_seconds, partial(self.recheck, acceptor))
            self.timeline.after(1.0, partial(self.tick, acceptor))
        for shard in range(self.plan.shards):
            self.turn_ends(("shard", shard))
        self.timeline.after(POLL_SECONDS, self.poll)
        self.timeline.after(RECORD_SECONDS, self.record)

    def record(self) -> None:
        """Have the console record the gauges, again and again."""
        if self.is_postponed(CONSOLE, self.record):
            return
        self.timeline.at(self.weather.regularly(RECORD_SECONDS), self.record)
        self.node.record_gauges()
        self.arm(self.after_turn[CONSOLE])

    def poll(self) -> None:
        """Run the router's periodic work, again and again. If its disk did not let it finish its turn, try again."""
        if self.is_postponed(ROUTER, self.poll):
            return
        self.timeline.at(self.weather.regularly(POLL_SECONDS), self.poll)
        node = self.node
        for index, shard in node.running_shards():
            node.gauges.measures_write("shard", index, 0, 0, 0, shard.core.gate.stored)
        if node.router_runs:
            node.router_waits = False
            node.router.core.end_expired()
            node.router.authority.placing.advance()
            node.router.processes.handle_deaths()
            self.turn_ends(ROUTER)

    def router_answers(self) -> bool:
        """Whether the router answers a command at once."""
        return self.node.router_answers() and not self.hung(ROUTER)

    def recheck(self, number: int) -> None:
        """Run an acceptor's rechecks, again and again."""
        if self.is_postponed(("acceptor", number), partial(self.recheck, number)):
            return
        self.timeline.at(self.weather.regularly(self.node.settings.flow.recheck_seconds), partial(self.recheck, number))
        if self.node.acceptors[number] is not None:
            self.node.recheck(number)
            self.turn_ends(("acceptor", number))

    def tick(self, number: int) -> None:
        """Run an acceptor's chores of each second, again and again."""
        if self.is_postponed(("acceptor", number), partial(self.tick, number)):
            return
        self.timeline.at(self.weather.regularly(1.0), partial(self.tick, number))
        acceptor = self.node.acceptors[number]
        if acceptor is not None:
            acceptor.core.state.now = self.timeline.now
            acceptor.core.tick()
            self.turn_ends(("acceptor", number))

    def step(self, until: float) -> bool:
        """Do what is due next, not later than `until`; return whether anything was."""
        action = self.timeline.pop(until)
        self.node.now = self.timeline.now
        if action is None:
            return False
        action()
        return True

    # Bytes of clients

    def read_from(self, number: int, client: Client) -> None:
        """Have an acceptor read what a client writes; number is the client's in the plan."""
        name, place = f"reads of client {number}", ("acceptor", client.acceptor)

        def waits() -> bool:
            acceptor = self.node.acceptors[client.acceptor]
            if acceptor is None or not client.unread or not client.socket.lets(1) or self.is_cut(number):
                return False
            return not acceptor.core.state.behind()

        def read() -> bool:
            return client.read(activity.chance.choice(READS))

        activity = self.reads[number] = Activity(name, place, NETWORK_SECONDS, waits, read, self.seed(name))
        self.arm((activity,))
