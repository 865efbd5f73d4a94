"""A transaction among processes that die: the protocol's own code, on stores and lines of which a test sees each step.

`acceptor.two_phase` and `shard.transactions.two_phase` are the real ones. What is round them is as small as can be: a
shard's disk is what was written, each commit whole; a line keeps its order; a link says again, to the next life of a
shard, what has no answer and a PREPARE that its disk does not know. A step is a message, a commit of a store, a death,
a start, or time.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from acceptor.two_phase import TwoPhase as Coordinator
from penstock import bus
from shard.transactions.two_phase import REPEAT_US, TwoPhase

NUMBER = 7
ACCEPTOR = b"acceptor.0.1"
Step = tuple[Any, ...]
DEATHS = ("die", "write and die", "acceptor dies")


@dataclass
class Disk:
    """What outlives a shard: its part, the shards that a decision waits for, what its part came to, and whether it has
    taken in the PREPARE.
    """

    part: int | None = None
    decision: list[int] | None = None
    outcomes: list[str] = field(default_factory=list)
    taken: bool = False


class FakePart:
    """A part that counts what it comes to."""

    weight = octets = 0
    settlements = ()

    def __init__(self, decider: int, recovered: bool) -> None:
        self.decider = decider
        self.recovered = self.stored = recovered

    def record(self, core: Any) -> list[bytes]:
        return [b"part"]

    def commit(self, core: FakeCore, intake: None) -> None:
        core.comes_to("done")

    def abort(self, core: FakeCore) -> None:
        core.comes_to("undone")


class FakePeer:
    def __init__(self) -> None:
        self.up = False
        self.line: deque[tuple[Any, ...]] = deque()

    def add_operation(self, *operation: Any) -> None:
        self.line.append(operation)


class Peers(dict[int, FakePeer]):
    met = 0


class FakeLink:
    """A shard's side of an acceptor, or of another shard: what it answers."""

    def __init__(self, identity: bytes) -> None:
        self.identity = identity
        self.replies: list[list[Any]] = []

    def reply(self, request: int, result: Any) -> None:
        self.replies.append([request, result])


class FakeCore:
    """What a life of a shard has round its `TwoPhase`. `gathered` is what the next commit writes, `kept` what is done
    once it has.
    """

    def __init__(self, world: World, index: int, disk: Disk) -> None:
        self.world = world
        self.index = index
        self.now = 0
        self.version = 0
        self.gauges = SimpleNamespace(epoch=world.epoch)
        self.topology = SimpleNamespace(shards=dict.fromkeys(range(world.shards), "serving"))
        self.dead: dict[tuple[str, int], int] = {}
        self.peers = Peers({peer: FakePeer() for peer in range(world.shards)})
        self.journal = self.commits = self
        self.gathered: list[tuple[str, Any]] = []
        self.kept: list[Callable[[], None]] = []
        self.outcome = ""
        self.link = FakeLink(ACCEPTOR)
        itself = cast(Any, self)
        self.two_phase = TwoPhase(itself, cast(Any, self.peers), itself, cast(Any, None), self.apply_known_deaths)
        parts = {} if disk.part is None else {world.id: FakePart(disk.part, True)}
        decisions = {} if disk.decision is None else {world.id: disk.decision}
        self.two_phase.recover(cast(Any, parts), decisions)

    def prepare(self, id: bytes, record: Any, octets: int) -> None:
        part = self.two_phase.parts.get(id)
        self.gathered.append(("part", None if record is None or part is None else part.decider))

    def decide(self, id: bytes, record: bytes | None) -> None:
        self.gathered.append(("decision", None if record is None else bus.unpack(record)))

    def comes_to(self, outcome: str) -> None:
        self.outcome = outcome
        self.gathered.append(("outcome", outcome))

    def when_kept(self, action: Callable[[], None]) -> None:
        self.kept.append(action)

    def waits(self) -> bool:
        return bool(self.two_phase.doubts or self.two_phase.decisions)

    def apply_known_deaths(self, acceptor: int) -> None:
        if self.world.noted and not self.dead:
            self.mourn()

    def mourn(self) -> None:
        self.dead["acceptor", 0] = 1
        self.world.up[self.index].clear()
        self.two_phase.died(0, 1)


class FakeShardLink:
    """The acceptor's side of a shard: requests without an answer, by number."""

    def __init__(self, world: World, index: int) -> None:
        self.world = world
        self.index = index
        self.requests: dict[int, tuple[list[Any], Any]] = {}

    def ask(self, operation: list[Any], reply: Any) -> None:
        operation[1] = len(self.requests) + 100 * operation[0]
        self.requests[operation[1]] = operation, reply
        self.world.send(self.index, operation)


class World:
    """One transaction over some shards, from the moment at which its parts leave. Shard 0 decides."""

    def __init__(self, shards: int, deaths: int, times: int = 0) -> None:
        self.shards = shards
        self.deaths = deaths
        self.times = times
        self.epoch = 1
        self.acceptor_lives = True
        self.noted = False
        self.ok = False
        self.up: list[deque[list[Any]]] = [deque() for _ in range(shards)]
        self.down: list[deque[list[Any]]] = [deque() for _ in range(shards)]
        self.disks = [Disk() for _ in range(shards)]
        self.id = b""
        self.cores: list[FakeCore | None] = [None] * shards
        for index in range(shards):
            self.start(index)
        self.id = self.core(0).two_phase.id_of(cast(Any, self.core(0).link), NUMBER)
        self.links = [FakeShardLink(self, index) for index in range(shards)]
        for index in range(shards):
            self.send(index, [bus.PREPARE])
        Coordinator(NUMBER, self.links, self.committed).begin()

    def committed(self) -> None:
        self.ok = True

    def core(self, index: int) -> FakeCore:
        core = self.cores[index]
        assert core is not None
        return core

    def send(self, index: int, operation: list[Any]) -> None:
        if self.acceptor_lives and self.cores[index] is not None:
            self.up[index].append([*operation])

    # Steps

    def steps(self) -> list[Step]:
        """What can happen next. Time passes a few times whenever, then only where nothing else goes on."""
        steps = list(self.other_steps())
        if not self.times and any(step[0] not in DEATHS for step in steps):
            return steps
        waiting = [index for index, core in enumerate(self.cores) if core is not None and core.waits()]
        return steps + [("pass time", index) for index in waiting]

    def other_steps(self) -> Iterator[Step]:
        living = [index for index, core in enumerate(self.cores) if core is not None]
        for index in living:
            core = self.core(index)
            if self.up[index]:
                yield "take in", index
            if self.down[index] and self.acceptor_lives:
                yield "hear", index
            if core.gathered or core.kept:
                yield "write", index
                if self.deaths:
                    yield "write and die", index
            if self.noted and not core.dead:
                yield "mourn", index
            for peer in living:
                if core.peers[peer].line:
                    yield "cross", index, peer
            if self.deaths:
                yield "die", index
        for index in set(range(self.shards)) - set(living):
            yield "start", index
        if self.acceptor_lives and self.deaths:
            yield ("acceptor dies",)
        if not self.acceptor_lives and not self.noted:
            yield ("note",)
        if not living and not self.acceptor_lives and self.epoch == 1:
            yield ("next run",)

    def take(self, step: Step) -> None:
        """Have it happen; then it still holds that nobody has done what somebody has undone."""
        what, *where = step
        getattr(self, what.replace(" ", "_"))(*where)
        for core in self.cores:
            if core is not None and (core.two_phase.doubts or core.two_phase.decisions):
                core.two_phase.repeat_unanswered()
        self.check()

    def take_in(self, index: int) -> None:
        core = self.core(index)
        operation = self.up[index].popleft()
        if operation[0] == bus.PREPARE:
            core.gathered.append(("taken", True))
            core.two_phase.prepare(cast(Any, core.link), NUMBER, cast(Any, FakePart(0, False)))
        else:
            handle = {
                bus.PREPARED: core.two_phase.prepared,
                bus.DECIDE: core.two_phase.decide,
                bus.DO: core.two_phase.do,
            }
            cast(Any, handle[operation[0]])(core.link, *operation[1:])
        self.carry(index)

    def carry(self, index: int) -> None:
        """What a shard has said to the acceptor is on its way."""
        core = self.core(index)
        self.down[index] += core.link.replies
        core.link.replies = []

    def hear(self, index: int) -> None:
        request, result = self.down[index].popleft()
        _, reply = self.links[index].requests.pop(request, (None, None))
        if reply is not None:
            reply(result, None, ())

    def write(self, index: int) -> None:
        core = self.core(index)
        self.put(index)
        kept, core.kept = core.kept, []
        for action in kept:
            action()
        self.carry(index)

    def put(self, index: int) -> None:
        core, disk = self.core(index), self.disks[index]
        gathered, core.gathered = core.gathered, []
        for what, value in gathered:
            if what == "outcome":
                disk.outcomes.append(value)
            else:
                setattr(disk, what, value)

    def write_and_die(self, index: int) -> None:
        self.put(index)
        self.die(index)

    def die(self, index: int) -> None:
        """What it has said to other shards may still be taken in, and what it has said to the acceptor heard."""
        self.deaths -= 1
        self.cores[index] = None
        self.up[index].clear()
        for core in self.cores:
            if core is not None:
                core.peers[index].up = False
                core.peers[index].line.clear()

    def start(self, index: int) -> None:
        disk = self.disks[index]
        core = self.cores[index] = FakeCore(self, index, disk)
        self.down[index].clear()
        for peer in range(self.shards):
            other = self.cores[peer]
            if peer != index and other is not None:
                for one, two in ((core, peer), (other, index)):
                    one.peers[two].up = True
                    one.peers.met += 1
        if self.acceptor_lives and hasattr(self, "links"):
            if not disk.taken:
                self.send(index, [bus.PREPARE])
            for operation, _ in self.links[index].requests.values():
                self.send(index, operation)

    def cross(self, index: int, peer: int) -> None:
        operation, *arguments = self.core(index).peers[peer].line.popleft()
        core = self.core(peer)
        handle = {
            bus.IN_DOUBT: core.two_phase.on_in_doubt, bus.OUTCOME: core.two_phase.on_outcome,
            bus.DONE: core.two_phase.on_done,
        }  # fmt: skip
        cast(Any, handle[operation])(FakeLink(b"shard.%d.1" % index), *arguments)

    def pass_time(self, index: int) -> None:
        self.times = max(self.times - 1, 0)
        self.core(index).now += 2 * REPEAT_US

    def mourn(self, index: int) -> None:
        self.core(index).mourn()

    def acceptor_dies(self) -> None:
        self.deaths -= 1
        self.acceptor_lives = False
        for line in self.down:
            line.clear()

    def note(self) -> None:
        """The supervisor has buried it."""
        self.noted = True

    def next_run(self) -> None:
        self.epoch += 1

    # What holds

    def check(self) -> None:
        """At each step."""
        memory = [core.outcome for core in self.cores if core is not None]
        disks = [outcome for disk in self.disks for outcome in disk.outcomes]
        assert len({outcome for outcome in (*memory, *disks) if outcome}) <= 1, (memory, disks)
        assert all(len(disk.outcomes) <= 1 for disk in self.disks), disks
        if self.ok:
            assert "undone" not in (*memory, *disks)
            assert all(disk.outcomes == ["done"] for disk in self.disks)

    def check_end(self) -> None:
        """When nothing more happens: all of it is done or nothing, and nobody keeps anything."""
        outcomes = {tuple(disk.outcomes) for disk in self.disks if disk.outcomes or disk.taken}
        assert outcomes in ({("done",)}, {("undone",)}, set()), outcomes
        assert not self.ok or outcomes == {("done",)}
        assert not self.acceptor_lives or self.ok
        for core, disk in zip(self.cores, self.disks, strict=True):
            assert disk.part is None and disk.decision is None
            assert core is not None and not core.two_phase.parts and not core.two_phase.decisions

    def key(self) -> Hashable:
        """What it is, but for times."""
        return (
            (self.deaths, self.times, self.epoch, self.acceptor_lives, self.noted, self.ok),
            freeze(self.up), freeze(self.down),
            freeze([vars(disk) for disk in self.disks]), freeze([list(link.requests) for link in self.links]),
            tuple(None if core is None else of_core(core) for core in self.cores),
        )  # fmt: skip

    def copy(self) -> World:
        world: World = pickle.loads(pickle.dumps(self))
        return world


def of_core(core: FakeCore) -> Hashable:
    decisions = [(id, sorted(each.waiting), each.kept, each.old) for id, each in core.two_phase.decisions.items()]
    kept = [(action.func.__name__, action.args[:-1], freeze(action.args[-1])) for action in core.kept
            if isinstance(action, partial)]  # fmt: skip
    lines = [list(peer.line) for peer in core.peers.values()]
    return (
        core.outcome, bool(core.dead), freeze(core.gathered), freeze(kept), freeze(lines), freeze(decisions),
        *(tuple(known) for known in (core.two_phase.parts, core.two_phase.doubts)),
    )  # fmt: skip


def freeze(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple((key, freeze(each)) for key, each in value.items())
    if isinstance(value, Sequence | deque) and not isinstance(value, str | bytes):
        return tuple(freeze(each) for each in value)
    return cast(Hashable, value)
