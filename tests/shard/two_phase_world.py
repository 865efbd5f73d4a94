"""A transaction among processes that die: the protocol's own code, on stores and lines whose every step a test
controls.

`acceptor.transactions.two_phase` and `shard.transactions.two_phase` are the real ones. Their surroundings are as small
as can be: a shard's disk has the commits that were written, each whole; a line keeps its order; a link repeats, to the
next incarnation of a shard, unanswered requests and a PREPARE that its disk does not know. A step is a message, a
commit of a store, a death, a start, or time.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from acceptor.transactions.two_phase import TwoPhase as Coordinator
from penstock import bus
from penstock.bus import to_shard
from penstock.bus.link_stage import LinkStage
from penstock.bus.operations_cy import Operation
from shard.transactions.two_phase import REPEAT_US, TwoPhase

NUMBER = 7
ACCEPTOR = b"acceptor.0.1"
Step = tuple[Any, ...]
DEATHS = ("die", "write and die", "acceptor dies")


REQUESTS = (to_shard.Prepared, to_shard.Decide, to_shard.Do)
PREPARE = to_shard.Prepare(0, None, (), NUMBER, 0, 0)


@dataclass
class Disk:
    """Data that outlive a shard: its part, the shards that a decision waits for, the outcomes of its part, and whether
    it has received the PREPARE.
    """

    part: int | None = None
    decision: list[int] | None = None
    outcomes: list[str] = field(default_factory=list)
    taken: bool = False


class FakePart:
    """A part that records its outcome."""

    weight = nbytes = 0
    settlements = ()

    def __init__(self, decider: int, recovered: bool) -> None:
        self.decider = decider
        self.recovered = self.stored = recovered

    def record(self, core: Any) -> list[bytes]:
        """Return the record to write."""
        return [b"part"]

    def commit(self, core: FakeCore, intake: None) -> None:
        """Commit the part."""
        core.comes_to("done")

    def abort(self, core: FakeCore) -> None:
        """Abort the part."""
        core.comes_to("undone")


class FakePeer:
    """A shard's side of another shard."""

    def __init__(self) -> None:
        self.stage = LinkStage.DOWN
        self.line: deque[tuple[Any, ...]] = deque()

    def add_operation(self, operation: Operation) -> None:
        """Send an operation."""
        self.line.append(operation)


class Peers(dict[int, FakePeer]):
    """A shard's peers, by index."""

    met = 0


class FakeLink:
    """A shard's side of an acceptor, or of another shard: its answers."""

    def __init__(self, identity: bytes) -> None:
        self.identity = identity
        self.replies: list[list[Any]] = []

    def reply(self, request: int, result: Any) -> None:
        self.replies.append([request, result])


class FakeCore:
    """The surroundings of an incarnation's `TwoPhase`. `gathered` is written by the next commit; `kept` is done once it
    is.
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

    def prepare(self, id: bytes, record: Any, nbytes: int) -> None:
        """Gather the record of a part, or its removal."""
        part = self.two_phase.parts.get(id)
        self.gathered.append(("part", None if record is None or part is None else part.decider))

    def decide(self, id: bytes, record: bytes | None) -> None:
        """Gather a decision, or its removal."""
        self.gathered.append(("decision", None if record is None else bus.unpack(record)))

    def comes_to(self, outcome: str) -> None:
        """Record the outcome."""
        self.outcome = outcome
        self.gathered.append(("outcome", outcome))

    def when_kept(self, action: Callable[[], None]) -> None:
        """Call an action after the next commit."""
        self.kept.append(action)

    def waits(self) -> bool:
        """Whether time may change anything."""
        return bool(self.two_phase.doubts or self.two_phase.decisions)

    def apply_known_deaths(self, acceptor: int) -> None:
        """Learn of the acceptor's death, if the supervisor has noticed it."""
        if self.world.noted and not self.dead:
            self.mourn()

    def mourn(self) -> None:
        """Learn of the acceptor's death."""
        self.dead["acceptor", 0] = 1
        self.world.up[self.index].clear()
        self.two_phase.died(0, 1)


class FakeShardLink:
    """The acceptor's side of a shard: unanswered requests, by number."""

    def __init__(self, world: World, index: int) -> None:
        self.world = world
        self.index = index
        self.requests: dict[int, tuple[list[Any], Any]] = {}

    def ask(self, request: Any, reply: Any) -> None:
        """Send a request."""
        request = request._replace(request=len(self.requests) + 100 * REQUESTS.index(type(request)))
        self.requests[request.request] = request, reply
        self.world.send(self.index, request)


class World:
    """One transaction over some shards, from the moment when its parts leave. Shard 0 decides."""

    def __init__(self, shards: int, deaths: int, times: int = 0) -> None:
        self.shards = shards
        self.deaths = deaths
        self.times = times
        self.epoch = 1
        self.acceptor_incarnations = True
        self.noted = False
        self.ok = False
        self.decided = False
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
            self.send(index, PREPARE)
        Coordinator(NUMBER, self.links, self.committed).begin()

    def committed(self) -> None:
        """Record that the transaction was answered."""
        self.ok = True

    def core(self, index: int) -> FakeCore:
        """Return a running shard."""
        core = self.cores[index]
        assert core is not None
        return core

    def send(self, index: int, operation: Operation) -> None:
        """Send an operation of the acceptor to a shard."""
        if self.acceptor_incarnations and self.cores[index] is not None:
            self.up[index].append(operation)

    # Steps

    def steps(self) -> list[Step]:
        """Return the possible next steps. Time passes a few times at any point, then only if nothing else goes on."""
        steps = list(self.other_steps())
        if not self.times and any(step[0] not in DEATHS for step in steps):
            return steps
        waiting = [index for index, core in enumerate(self.cores) if core is not None and core.waits()]
        return steps + [("pass time", index) for index in waiting]

    def other_steps(self) -> Iterator[Step]:
        """Yield the possible next steps, except time."""
        living = [index for index, core in enumerate(self.cores) if core is not None]
        for index in living:
            core = self.core(index)
            if self.up[index]:
                yield "take in", index
            if self.down[index] and self.acceptor_incarnations:
                yield "receive", index
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
        if self.acceptor_incarnations and self.deaths:
            yield ("acceptor dies",)
        if not self.acceptor_incarnations and not self.noted:
            yield ("note",)
        if not living and not self.acceptor_incarnations and self.epoch == 1:
            yield ("next run",)

    def take(self, step: Step) -> None:
        """Take a step; check that no shard has done what another has undone."""
        what, *where = step
        getattr(self, what.replace(" ", "_"))(*where)
        for core in self.cores:
            if core is not None and (core.two_phase.doubts or core.two_phase.decisions):
                core.two_phase.repeat_unanswered()
        self.check()

    def take_in(self, index: int) -> None:
        """Have a shard receive the acceptor's next operation."""
        core = self.core(index)
        operation = self.up[index].popleft()
        if isinstance(operation, to_shard.Prepare):
            core.gathered.append(("taken", True))
            core.two_phase.prepare(cast(Any, core.link), NUMBER, cast(Any, FakePart(0, False)))
        else:
            handle = {
                to_shard.Prepared: core.two_phase.prepared,
                to_shard.Decide: core.two_phase.decide,
                to_shard.Do: core.two_phase.do,
            }
            cast(Any, handle)[type(operation)](core.link, operation)
        self.carry(index)

    def carry(self, index: int) -> None:
        """Send a shard's answers to the acceptor."""
        core = self.core(index)
        self.down[index] += core.link.replies
        core.link.replies = []

    def receive(self, index: int) -> None:
        """Deliver a shard's next answer."""
        request, result = self.down[index].popleft()
        _, reply = self.links[index].requests.pop(request, (None, None))
        if reply is not None:
            reply(result, None, ())

    def write(self, index: int) -> None:
        """Write a shard's commit, and do what waited for it."""
        core = self.core(index)
        self.put(index)
        kept, core.kept = core.kept, []
        for action in kept:
            action()
        self.carry(index)

    def put(self, index: int) -> None:
        """Write a shard's commit."""
        core, disk = self.core(index), self.disks[index]
        gathered, core.gathered = core.gathered, []
        for what, value in gathered:
            if what == "outcome":
                disk.outcomes.append(value)
            else:
                setattr(disk, what, value)
            self.decided = self.decided or (what == "decision" and value is not None)

    def write_and_die(self, index: int) -> None:
        """Write a shard's commit, then kill it at once."""
        self.put(index)
        self.die(index)

    def die(self, index: int) -> None:
        """Kill a shard. Its messages to other shards and its answers to the acceptor may still arrive."""
        self.deaths -= 1
        self.cores[index] = None
        self.up[index].clear()
        for core in self.cores:
            if core is not None:
                core.peers[index].stage = LinkStage.DOWN
                core.peers[index].line.clear()

    def start(self, index: int) -> None:
        """Start a shard, and resend to it everything unanswered."""
        disk = self.disks[index]
        core = self.cores[index] = FakeCore(self, index, disk)
        self.down[index].clear()
        for peer in range(self.shards):
            other = self.cores[peer]
            if peer != index and other is not None:
                for one, two in ((core, peer), (other, index)):
                    one.peers[two].stage = LinkStage.UP
                    one.peers.met += 1
        if self.acceptor_incarnations and hasattr(self, "links"):
            if not disk.taken:
                self.send(index, PREPARE)
            for operation, _ in self.links[index].requests.values():
                self.send(index, operation)

    def cross(self, index: int, peer: int) -> None:
        """Deliver a shard's next operation to another."""
        operation = self.core(index).peers[peer].line.popleft()
        core = self.core(peer)
        handle = {
            to_shard.InDoubt: core.two_phase.on_in_doubt, to_shard.Outcome: core.two_phase.on_outcome,
            to_shard.Done: core.two_phase.on_done,
        }  # fmt: skip
        cast(Any, handle)[type(operation)](FakeLink(b"shard.%d.1" % index), operation)

    def pass_time(self, index: int) -> None:
        """Let time pass for a shard."""
        self.times = max(self.times - 1, 0)
        self.core(index).now += 2 * REPEAT_US

    def mourn(self, index: int) -> None:
        """Inform a shard of the acceptor's death."""
        self.core(index).mourn()

    def acceptor_dies(self) -> None:
        """Kill the acceptor."""
        self.deaths -= 1
        self.acceptor_incarnations = False
        for line in self.down:
            line.clear()

    def note(self) -> None:
        """Record that the supervisor has noticed the acceptor's death."""
        self.noted = True

    def next_run(self) -> None:
        """Begin another run of the node."""
        self.epoch += 1

    # Invariants

    def check(self) -> None:
        """Check the invariants of each step."""
        memory = [core.outcome for core in self.cores if core is not None]
        disks = [outcome for disk in self.disks for outcome in disk.outcomes]
        assert len({outcome for outcome in (*memory, *disks) if outcome}) <= 1, (memory, disks)
        assert all(len(disk.outcomes) <= 1 for disk in self.disks), disks
        assert self.decided or "done" not in memory, "done before the decision is on the disk"
        if self.ok:
            assert self.decided and "undone" not in (*memory, *disks)
            assert all(disk.outcomes == ["done"] for disk in self.disks)

    def check_end(self) -> None:
        """Check the end: all of it is done or nothing, and no shard keeps anything."""
        outcomes = {tuple(disk.outcomes) for disk in self.disks if disk.outcomes or disk.taken}
        assert outcomes in ({("done",)}, {("undone",)}, set()), outcomes
        assert not self.ok or outcomes == {("done",)}
        assert not self.acceptor_incarnations or self.ok
        for core, disk in zip(self.cores, self.disks, strict=True):
            assert disk.part is None and disk.decision is None
            assert core is not None and not core.two_phase.parts and not core.two_phase.decisions

    def key(self) -> Hashable:
        """Return the state of the world, except for times."""
        return (
            (self.deaths, self.times, self.epoch, self.acceptor_incarnations, self.noted, self.ok, self.decided),
            freeze(self.up), freeze(self.down),
            freeze([vars(disk) for disk in self.disks]), freeze([list(link.requests) for link in self.links]),
            tuple(None if core is None else of_core(core) for core in self.cores),
        )  # fmt: skip

    def copy(self) -> World:
        """Return a copy."""
        world: World = pickle.loads(pickle.dumps(self))
        return world


def of_core(core: FakeCore) -> Hashable:
    """Return a shard's state."""
    decisions = [(id, sorted(each.waiting), each.kept, each.old) for id, each in core.two_phase.decisions.items()]
    kept = [(action.func.__name__, action.args[:-1], freeze(action.args[-1])) for action in core.kept
            if isinstance(action, partial)]  # fmt: skip
    lines = [list(peer.line) for peer in core.peers.values()]
    return (
        core.outcome, bool(core.dead), freeze(core.gathered), freeze(kept), freeze(lines), freeze(decisions),
        *(tuple(known) for known in (core.two_phase.parts, core.two_phase.doubts)),
    )  # fmt: skip


def freeze(value: Any) -> Hashable:
    """Return a value as a hashable one."""
    if isinstance(value, dict):
        return tuple((key, freeze(each)) for key, each in value.items())
    if isinstance(value, Sequence | deque) and not isinstance(value, str | bytes):
        return tuple(freeze(each) for each in value)
    return cast(Hashable, value)
