"""The model with shards that die and have stores: clients must not notice.

Everything is persistent. An acked message does not come again, a confirmed one is not lost, an unacked one stays
unacked; only a publish that was not safe enters again, delivered or not, and a delivery that needs no ack may come
twice.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from penstock.bus.to_acceptor import Rejected
from shard.core import ShardCore
from tests.flow.router import FlowAndRouter
from tests.flow.world import BESIDE, LARGEST, Id, Kept, Person, identity
from tests.frames import Event


class FlowAndLives(FlowAndRouter):
    """Shards and the router die and come back at any time; acceptors do not."""

    stores = True

    def __init__(self) -> None:
        super().__init__()
        # Messages safe when shards died, and those of them that their next incarnations know of, by queue id.
        self.kept: dict[int, set[Id]] = {}
        self.known: dict[int, set[Id]] = {}
        self.refused: dict[int, int] = {}
        self.unacked_for_ever: set[tuple[str, Id]] = set()
        self.deaths = 0
        # Depths of queues when their shards began anew, with what is sent to them again: messages and bytes.
        self.again: dict[str, tuple[int, int]] = {}
        # Deliveries of publishes that were not safe, by client, channel and tag: no later incarnation knows them.
        self.stale: set[tuple[int, int, int]] = set()

    def hear(self, person: Person, event: Event) -> bool:
        """Process a client's event; record deliveries that may come again."""
        session = person.sessions.get(event.channel)
        if session is not None and not session.closing and event.name in ("basic.get-ok", "basic.deliver"):
            got = session.gets[0] if event.name == "basic.get-ok" else ""
            queue = got.removeprefix("no-ack ") or session.consumers[event.consumer_tag]
            at = queue, identity(event.body)
            if at in self.afresh:
                self.are_stale({at})  # an earlier delivery may have been in flight when the shard died
            if (got or event.consumer_tag).startswith("no-ack"):
                self.unacked_for_ever.add(at)
                if self.deaths:  # it may have been in flight from an incarnation that had not written its removal
                    self.may_come_again({at})
        return super().hear(person, event)

    @rule(which=st.integers(0, 9), arriving=st.integers(0, 3), written=st.booleans())
    def kill_shard(self, which: int, arriving: int, written: bool) -> None:
        """Kill a shard."""
        shard = which % len(self.node.shards)
        if self.node.shards[shard] is None:
            return
        life = self.node.kill_shard(shard, arriving, written)
        self.deaths += 1
        names = {kept.id: kept.name for kept in self.queues.values()}
        unsafe = {(names[id], identity(body)) for id, body in life.unsafe()}
        self.nothing_unsafe_is_confirmed(unsafe)
        for id, book in life.books.items():
            known = {identity(body) for body in book.entered}
            self.known.setdefault(id, set()).update(map(identity, book.entered[: book.written]))
            self.kept.setdefault(id, set()).update(message for message in known if (names[id], message) not in unsafe)
            queue = life.queue(id)
            dropped = 0 if queue is None else queue.contents.totals.dropped
            self.refused[id] = self.refused.get(id, 0) + book.rejected + dropped + unreported(life.core, id)
        self.may_come_again(unsafe | self.unacked_for_ever)
        self.are_stale(unsafe)
        for person in self.people:
            for session in person.sessions.values():
                queues = [queue for tag, queue in session.consumers.items() if tag.startswith("no-ack")]
                self.leaky |= {*queues, *(queue.removeprefix("no-ack ") for queue in session.gets)}

    def are_stale(self, messages: set[tuple[str, Id]]) -> None:
        """Record that no later incarnation knows the clients' unacked deliveries of these messages."""
        for person in self.people:
            for session in person.sessions.values():
                gone = {tag for tag, at in session.open.items() if at in messages}
                self.stale |= {(person.number, session.number, tag) for tag in gone}

    def may_come_again(self, messages: set[tuple[str, Id]]) -> None:
        """Allow messages to come again as if new."""
        self.afresh |= messages
        for at in messages:
            self.returned[at] += 1 << 20

    @rule(which=st.integers(0, 9))
    def start_shard(self, which: int) -> None:
        """Start a shard again."""
        shard = which % len(self.node.shards)
        if self.node.shards[shard] is None and self.node.router_lives:
            self.node.start_shard(shard)
            self.note_again(shard)

    def note_again(self, shard: int) -> None:
        """Record how deep queues may be: messages whose removal was not written are there again, and repeats arrive."""
        acceptors = len(self.node.acceptors)
        for id, queue in self.node.shard(shard).state.queues.items():
            queue_gates = [life.core.gates.queue_gates.get(id) for _, life in self.node.running_acceptors()]
            count, nbytes = queue.depth + acceptors, queue.depth_bytes + acceptors * (LARGEST + BESIDE)
            for queue_gate in queue_gates:
                if queue_gate is not None:
                    count, nbytes = count + queue_gate.in_flight, nbytes + queue_gate.in_flight_bytes
            self.again[queue.name] = count, nbytes

    def tells_of_leaving(self, name: str) -> bool:
        return super().tells_of_leaving(name) and name not in self.again

    def as_deep(self, name: str) -> tuple[int, int] | None:
        before, again = super().as_deep(name), self.again.get(name, (0, 0))
        return None if before is None else (max(before[0], again[0]), max(before[1], again[1]))

    @rule(which=st.integers(0, 9))
    def commit(self, which: int) -> None:
        """Have a shard hand over or write a commit."""
        self.node.commit_shard(which % len(self.node.shards))

    def revive(self) -> None:
        """Start the router and all shards."""
        super().revive()
        for shard in range(len(self.node.shards)):
            self.start_shard(shard)

    def nothing_unsafe_is_confirmed(self, unsafe: set[tuple[str, Id]]) -> None:
        """Check that no confirmed message was unsafe."""
        confirmed = {
            session.tags[tag]
            for person in self.people
            for session in person.sessions.values()
            for tag, positive in session.answered.items()
            if positive
        }
        assert not (confirmed | self.committed) & {id for _, id in unsafe}

    def gone_with_others(self, kept: Kept) -> set[Id]:
        """Return the messages that earlier incarnations kept; none that they know of may enter again."""
        life = self.node.shards[self.node.queue(kept.name).shard]
        assert life is not None
        assert not self.known.get(kept.id, set()) & {identity(body) for body in life.entered(kept.id)}
        return self.kept.get(kept.id, set())

    def held_deliveries(self) -> list[tuple[str, Id]]:
        return [
            at
            for person in self.people
            for session in person.sessions.values()
            for tag, at in session.open.items()
            if (person.number, session.number, tag) not in self.stale
        ]

    def refused_before(self, kept: Kept) -> int:
        return self.refused.get(kept.id, 0)


def unreported(core: ShardCore, queue_id: int) -> int:
    """Return how many messages a queue has refused without their publishers knowing yet."""
    return sum(
        verdict.messages
        for link in core.state.links.values()
        for verdict in link.verdicts
        if isinstance(verdict, Rejected) and verdict.queue == queue_id and verdict.turn > link.reported
    )
