"""Interactions of clients, acceptors and shards, as rules; invariants that must hold whatever the order.

Clients publish to queues with limits of every kind, alone and several at once, consume, settle, commit, get, leave and
come back; turns, broadcasts, answers and changes of the topology are delivered when a rule says so. Each message
carries its publisher and number, so that every one of them can be accounted for.
"""

from __future__ import annotations

import sys
from functools import partial
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.flow.rest import AtRest
from tests.flow.world import BESIDE, LARGEST, UNPRIVILEGED, Kept, Session
from tests.simulator.invariants.accounts import whoever_is_held_has_an_episode
from tests.simulator.invariants.consumers import shared_prefetch_holds
from tests.simulator.invariants.metered import most_paced, most_rated, nobody_is_remembered, rates_hold, somebody_looks
from tests.simulator.invariants.node import hold_when_empty

# Single steps; a shard's turn is delivered with its broadcasts, or without.
STEPS = (
    *("read", "read", "part", "finish", "finish", "decide", "decide", "up", "up", "last", "across", "change", "reply"),
    *("keep", "keep", "keep", "lost", "late", "again", "meet", "mourn", "meter"),
)


class Flow(AtRest):
    """The rules without deaths."""

    def teardown(self) -> None:
        """End the example: everything must be delivered."""
        if not hasattr(self, "node"):
            return
        try:
            if sys.exc_info()[0] is None:
                self.everything_ends()
        finally:
            self.node.__exit__()

    # Steps of the node

    @rule(seed=st.integers(0, 1 << 16), steps=st.sampled_from([3, 15, 60]))
    def take_steps(self, seed: int, steps: int) -> None:
        """Take random single steps."""
        schedule = Random(seed)
        for _ in range(steps):
            self.take_step(schedule.choice(STEPS), schedule.randrange(60), schedule.randrange(60))
            self.no_queue_overshoots()

    def take_step(self, what: str, at: int, to: int) -> None:
        """Take a step; `at` is its place, `to` the other end."""
        acceptors, shards = len(self.node.acceptors), len(self.node.shards)
        match what:
            case "read":
                self.person(at).client.read()
            case "part":
                self.person(at).client.read(1 + 100 * to)
            case "finish":
                self.node.finish(at % acceptors)
            case "decide":
                self.node.finish_shard(at % shards)
            case "across":
                self.node.send_across(at % shards, to % shards)
            case "up" | "last":
                self.node.send_up(at % acceptors, to % shards, last=what == "last")
            case "change" | "reply":
                lives = [*self.node.acceptors, *self.node.shards]
                life = lives[at % len(lives)]
                if life is not None:
                    (self.node.change if what == "change" else self.node.reply)(life)
            case "meet":
                self.node.meet(at % acceptors)
            case "meter":
                self.node.meter(at % acceptors)
            case "mourn":
                self.node.mourn(at % shards)
            case _:
                self.node.send_down(to % shards, at % acceptors, what)

    @rule(acceptor=st.integers(0, 9), which=st.integers(0, 9), keep=st.booleans())
    def stray(self, acceptor: int, which: int, keep: bool) -> None:
        """Deliver a late broadcast, or repeat it."""
        if self.node.acceptors[acceptor % len(self.node.acceptors)] is not None:
            self.node.stray(acceptor % len(self.node.acceptors), which, keep)

    @rule(which=st.integers(0, 9), shards=st.booleans(), reply=st.booleans())
    def follow(self, which: int, shards: bool, reply: bool) -> None:
        """Deliver a change of the topology, or an answer of the router."""
        lives = self.node.shards if shards else self.node.acceptors
        life = lives[which % len(lives)]
        if life is not None:
            (self.node.reply if reply else self.node.change)(life)

    @rule(which=st.integers(0, 9), seconds=st.sampled_from([0.01, 1.0]))
    def time_passes(self, which: int, seconds: float) -> None:
        """Let time pass, and run an acceptor's rechecks."""
        self.node.now += seconds
        if self.node.acceptors[which % len(self.node.acceptors)] is not None:
            self.node.recheck(which % len(self.node.acceptors))

    @rule(slow=st.sampled_from([None, 0, 1]), steps=st.sampled_from([1, 10]))
    def go_on(self, slow: int | None, steps: int) -> None:
        """Take steps of everything, except the turns of one acceptor."""
        for _ in range(steps):
            self.node.step(slow)
            self.no_queue_overshoots()

    # Invariants

    @invariant()
    def no_queue_overshoots(self) -> None:
        """No queue is deeper than its stop mark and the published overshoot allow."""
        if not hasattr(self, "node"):
            return
        acceptors = len(self.node.acceptors)
        for _, shard in self.node.running_shards():
            for queue in shard.core.state.queues.values():
                marks, before = queue.limits.marks, self.as_deep(queue.name)
                kind = queue.name.split("-")[0]
                if before is None or self.share != 0 or kind in UNPRIVILEGED:
                    continue
                most, most_bytes = (acceptors * each for each in self.largest.get(kind, (0, 0)))
                bound, bound_bytes = marks.overshoot_bound(acceptors, queue.features.reserve)
                if marks.stop_count:
                    assert queue.saturation.over_count <= max(bound + most, before[0] - marks.stop_count)
                    assert queue.depth <= max(marks.stop_count + bound + most, before[0])
                if marks.stop_bytes:
                    late = bound_bytes + acceptors * (LARGEST + BESIDE) + most_bytes + most * BESIDE
                    assert queue.depth_bytes <= max(marks.stop_bytes + late, before[1])
                paced = most_paced(queue, acceptors)
                if paced is not None and not self.losses:
                    assert queue.depth <= max(paced + most, before[0])

    def as_deep(self, name: str) -> tuple[int, int] | None:
        """Return the depth that a queue may have whatever its bound, in messages and bytes; None if it is not known."""
        return self.changed.get(name, (0, 0))

    @invariant()
    def unprivileged_queues_hold_nobody(self) -> None:
        """No producer waits for an unprivileged queue."""
        if hasattr(self, "node"):
            self.nobody_waits_for_unprivileged_queues()

    @invariant()
    def what_is_kept_is_bounded(self) -> None:
        """The memory kept for clients is bounded."""
        if hasattr(self, "node"):
            self.budgets_hold()

    @invariant()
    def nothing_breaks(self) -> None:
        """No error has been logged."""
        if hasattr(self, "node"):
            assert not [line for line in self.node.logs if line["log_level"] in ("error", "critical")]

    @invariant()
    def whoever_is_held_has_an_episode(self) -> None:
        """Every held channel has an open episode, and no other has one."""
        if hasattr(self, "node"):
            for _, acceptor in self.node.running_acceptors():
                whoever_is_held_has_an_episode(acceptor.core)

    @invariant()
    def shared_prefetch_holds(self) -> None:
        """No channel has more unacked messages than its shared prefetch allows."""
        if hasattr(self, "node"):
            shared_prefetch_holds(self.node)

    @invariant()
    def metered_gates_are_looked_at(self) -> None:
        """Rates hold, and every gate that opens with time is rechecked."""
        if hasattr(self, "node"):
            rates_hold(self.node, LARGEST, *self.largest.get("", (0, 0)))
            self.no_queue_exceeds_its_rate()
            for _, life in self.node.running_acceptors():
                somebody_looks(life.core)

    def no_queue_exceeds_its_rate(self) -> None:
        """No queue with a rate has taken in more messages than the rate allows."""
        for kept in self.queues.values():
            if kept.kind != "rated" or kept.gone or self.losses:
                continue
            life = self.node.shards[self.node.queue(kept.name).shard]
            queue = None if life is None else life.core.state.queues.get(kept.id)
            if life is not None and queue is not None:
                most = most_rated(queue, self.node.now - kept.born_at)
                at_once = len(self.node.acceptors) * self.largest.get("rated", (0, 0))[0]
                assert most is None or len(life.entered(kept.id)) <= most + at_once

    def everything_ends(self) -> None:
        """Settle everything unacked and empty all queues: then all has arrived, and all is reported."""
        self.revive()
        while self.stops:
            self.operator_start(0)
        self.attackers_end()
        for kept in self.queues.values():
            if kept.gone:
                self.node.ask("queue_delete", queue_id=kept.id)
        drainer = self.arrive()
        self.people.append(drainer)
        session = drainer.sessions[2]
        for kept in self.living().values():
            session.consumers[f"drain-{kept.name}"] = kept.name
            session.asked.append(kept.name)
            drainer.client.send("basic.consume", 2, queue=kept.name, consumer_tag=f"drain-{kept.name}")
        for turn in range(2000):
            self.node.settle(1)
            self.what_is_kept_is_bounded()
            if turn % 100 == 99:
                self.give_up_commits()
                self.give_up_the_paused()
            for person in self.people:
                for session in person.sessions.values():
                    if session.tx and not session.closing and (session.uncommitted or session.unsettled):
                        self.commit_all(session)
                    tags = list(session.open.keys() - session.settled)
                    if tags and not session.closing and not session.recovering:
                        session.settled.update(tags)
                        when_read = partial(self.acked, session, tags)
                        if session.tx:
                            session.unsettled |= dict.fromkeys(tags, False)
                            when_read = None
                        person.client.send(
                            "basic.ack", session.number, when_read, delivery_tag=max(tags), multiple=True
                        )
            waits = any(channel.inbox or channel.running for channel in self.node.channels())
            unread = any(person.client.unread for person in self.people)
            if self.ended:
                self.reconnect()
            if not waits and not unread and not any(self.depths()) and not self.node.step():
                break  # nor is anything in flight that the last recheck let in
        self.node.settle(10)
        self.rest()
        assert not any(self.depths())
        hold_when_empty(self.node)
        for _, life in self.node.running_acceptors():
            nobody_is_remembered(life.core)
        for person in self.people:
            assert not person.blocked
            for session in person.sessions.values():
                assert session.answered.keys() == session.tags.keys()
        self.all_was_seen()

    def give_up_commits(self) -> None:
        """End commits that can never get room: a commit to a full queue waits for ever if acks of that queue's messages
        belong to a later commit.

        The client of such a commit closes the channel or, if its connection is not read, leaves.
        """
        for session in [session for session in self.transactional() if session.committing]:
            if session.client.client.connection.reads:
                self.close_session(session)
            elif session.client in self.people:
                self.drop(session.client)

    def acked(self, session: Session, tags: list[int]) -> None:
        """Record that the acks of these deliveries have been read."""
        for tag in tags:
            session.open.pop(tag, None)

    def depths(self) -> list[int]:
        """Return the depths of all queues."""
        return [queue.depth for _, life in self.node.running_shards() for queue in life.core.state.queues.values()]

    def all_was_seen(self) -> None:
        """Check that every message has been delivered, dropped or refused."""
        arrived = set(self.arrived)
        for kept in self.living().values():
            contents = self.node.state(kept.name).contents
            life = self.node.shards[self.node.queue(kept.name).shard]
            assert life is not None
            seen = {id for queue, id in self.seen if queue == kept.name}
            must = {id for id in arrived if self.meant_for(id, kept) and self.sent_at[id] > kept.born} - self.nacked
            if kept.name not in self.leaky and not self.losses and not self.refuses_for_itself(kept):
                refused = contents.totals.dropped + life.books[kept.id].rejected + self.refused_before(kept)
                assert len(must - seen) <= refused + self.dropped()[1]

    def refused_before(self, kept: Kept) -> int:
        """Return how many messages earlier incarnations of its shard dropped or refused."""
        return 0
