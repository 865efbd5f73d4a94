"""The model with processes that die: less is certain, but no channel waits for the dead and the books are right."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.flow.router import FlowAndRouter
from tests.flow.world import Id, Kept, identity


class FlowAndDeath(FlowAndRouter):
    """Shards, acceptors and the router die and come back at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: dict[int, set[Id]] = {}
        self.lost_prepared: dict[int, set[Id]] = {}
        self.bereft: set[int] = set()

    @rule(which=st.integers(0, 9), arriving=st.integers(0, 3))
    def kill_shard(self, which: int, arriving: int) -> None:
        """Kill a shard."""
        shard = which % len(self.node.shards)
        if self.node.shards[shard] is not None:
            self.losses += 1
            life = self.node.kill_shard(shard, arriving)
            for id, book in life.books.items():
                self.lost.setdefault(id, set()).update(map(identity, book.entered))
            for part in life.core.two_phase.parts.values():
                for publish in part.publishes:
                    bodies = [publish.batch.record(row)[2] for row in range(publish.batch.count)]
                    for id in publish.queues:
                        if isinstance(id, int):
                            self.lost_prepared.setdefault(id, set()).update(map(identity, bodies))

    @rule(which=st.integers(0, 9))
    def start_shard(self, which: int) -> None:
        """Start a shard again."""
        shard = which % len(self.node.shards)
        if self.node.shards[shard] is None and self.node.router_lives:
            self.node.start_shard(shard)

    @rule(which=st.integers(0, 9))
    def kill_acceptor(self, which: int) -> None:
        """Kill an acceptor, unless it is the last one."""
        acceptor = which % len(self.node.acceptors)
        if self.node.acceptors[acceptor] is None or sum(life is not None for life in self.node.acceptors) == 1:
            return
        self.losses += 1
        self.bereft |= {number for number, home in self.homes.items() if home == acceptor}
        self.people = [person for person in self.people if person.number not in self.bereft]
        self.ended = [person for person in self.ended if person.number not in self.bereft]
        self.node.kill_acceptor(acceptor)
        while len(self.people) < 2:
            self.people.append(self.arrive())

    @rule(which=st.integers(0, 9))
    def start_acceptor(self, which: int) -> None:
        """Start an acceptor again."""
        acceptor = which % len(self.node.acceptors)
        if self.node.acceptors[acceptor] is None and self.node.router_lives:
            self.node.start_acceptor(acceptor)

    def revive(self) -> None:
        """Start all processes."""
        super().revive()
        for shard in range(len(self.node.shards)):
            self.start_shard(shard)
        for acceptor in range(len(self.node.acceptors)):
            self.start_acceptor(acceptor)

    def may_miss_refusals(self) -> bool:
        return bool(self.bereft)

    def gone_with_others(self, kept: Kept) -> set[Id]:
        """Return the messages that died with a shard or with an acceptor."""
        return self.lost.get(kept.id, set()) | {id for id in self.arrived if id[0] in self.bereft}

    def gone_prepared(self, kept: Kept) -> set[Id]:
        return self.lost_prepared.get(kept.id, set())
