"""Transactions over several shards: all or nothing, whichever process dies when (two-phase commit, presumed abort).

The acceptor of the committing client is the *coordinator* (acceptor/transactions/two_phase.py), and keeps nothing on
disk; one of the shards that take part, the *decider*, keeps the decision.

    acceptor                      decider D                          each other shard P
       │ Prepare, Prepared ─────────▶│ hides its part, keeps it           │
       │ Prepare, Prepared ────────────────────────────────────────────▶  │ hides its part, keeps it
       │ ◀────────── all have kept theirs ────────────────────────────────┤
       │ Decide ────────────────────▶│ keeps the decision;                │
       │ ◀────────────────── kept ───┤ then its part is done              │
       │ Do ───────────────────────────────────────────────────────────▶  │ its part is done
       │ Do ────────────────────────▶│                                    │
       │ ◀────────────────── kept ───┤                                    │
       │ ◀────────────────────────────────────────────────────── kept ────┤
     commit-ok                       │ ◀──────────────────────── Done ────┤
                                     │ forgets the decision               │

**The invariant.** A part is done only if D has kept the decision, and undone only if D has none and can never have one.
D accepts a Decide only from the incarnation of the acceptor that is in the transaction's id, and only that incarnation
sends it, once all parts are kept. So the transaction happens, everywhere, at the moment when the decision is in D's
store: a kept part waits for it and outlives its shard. Once the acceptor's incarnation is over, which the supervisor
says when it has reaped the process, no decision means that there will be none. D's own part waits for the decision's
commit as well: no consumer receives a message of a transaction that is undone later. D is told to do it too, which it
has: its answer says that this is kept. Otherwise D could die after commit-ok, do its part once more, and deliver again,
under new numbers, what a consumer had acked.

**Deaths.** *P or D*: its next incarnation reads its part from the store, hidden again before anything is delivered, and
the living acceptor repeats whatever was not answered: a Prepare that was not safe, and each request. All of them may
arrive twice: a repeated Decide decides the same, and a shard without the part has done it. *The acceptor*: its client
gets no commit-ok; each shard with a part is in doubt and asks D, and D undoes its own. *P, having done its part but not
kept that*: it is in doubt again, and D still has the decision, because it has not received Done. *All processes*: each
recovered part is in doubt; the id contains the run of the node, so D knows that its acceptor is gone. *The router*
takes no part.

**In doubt.** A shard in doubt asks as soon as it meets D, and four times a second; for its first seconds a shard does
not serve before it has the answer. While D is down there is no answer, and the part stays hidden. Nothing is added to
it meanwhile: it is bounded by the commits of clients when their acceptor died, and counts in the room of the shard
(shard/transactions/prepared.py), which holds producers when there is too much.

**Forgetting.** D forgets a decision when its own part is done and each P has kept that its part is. A lost Done is made
up for: D sends Outcome of older decisions four times a second, and a shard without the part answers Done. So no P can
ask for a forgotten decision: it would have kept that its part is done.

**Acks.** Messages that a transaction settles leave their consumer when it is prepared, but stay unacked: they are
delivered to no other consumer and are not lost. Done, they are acked or dead-lettered; undone, they are requeued and
redelivered.

**Not kept.** A part of transient messages, or for queues that are not durable, dies with its shard as they do; the rest
of the transaction is done all the same. Where no shard has anything to keep, the decision is not kept either.

**Moves.** A queue does not leave its shard while parts of it are undecided; no new parts arrive once it is fenced, so a
move waits as long as the transactions that were in flight. A shard is not empty while it has a part or a decision.

Where commits do not wait for the disk (`store.durability`) these do: records kept here must not be lost in a power
failure while their consequences are on another disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

from penstock import bus
from penstock.bus import to_shard
from penstock.bus.link_stage import UP
from penstock.bus.operations_cy import Operation
from shard.contents.queue_cy import NEVER
from shard.queue.queue_state import QueueState
from shard.serving.intake import Intake
from shard.store.stored import TRANSACTION
from shard.transactions.prepared import Part
from shard.turns.commits import Commits
from shard.turns.link import Link, incarnation_of
from shard.turns.peers import Peers
from shard.turns.state import ShardState

PATIENCE_US = 5_000_000
"""Patience of a starting shard: it serves when it knows the outcome of earlier runs' transactions, or after so long."""
REPEAT_US = 250_000
"""An operation without an answer is repeated after so long."""


class Decision:
    """A decision to do a transaction; `waiting` are shards that may not have done it. It is announced only once it is
    `kept`. It is `old` if its coordinator had the time to have it done, or has died.
    """

    def __init__(self, waiting: Collection[int], stored: bool, kept: bool) -> None:
        self.waiting = set(waiting)
        self.stored = stored
        self.kept = self.old = kept


class TwoPhase:
    """The unfinished transactions of one shard, by id: its `parts`, those of them in `doubts`, and the `decisions` it
    has made for others. `apply_known_deaths` applies the known deaths of an acceptor's earlier incarnations.
    """

    def __init__(
        self, state: ShardState, peers: Peers, commits: Commits, intake: Intake,
        apply_known_deaths: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.state = state
        self.peers = peers
        self.commits = commits
        self.intake = intake
        self.apply_known_deaths = apply_known_deaths
        self.parts: dict[bytes, Part] = {}
        self.doubts: dict[bytes, Part] = {}
        self.decisions: dict[bytes, Decision] = {}
        self.weight = 0
        self._promised: set[bytes] = set()
        self._wake = 0
        self._met = 0
        self._deadline = state.now + PATIENCE_US

    def recover(self, parts: dict[bytes, Part], decisions: Mapping[bytes, Collection[int]]) -> None:
        """Restore the parts and decisions of an earlier incarnation: all parts are in doubt."""
        self.parts |= parts
        self.doubts |= parts
        self.weight = sum(part.weight for part in parts.values())
        for id, waiting in decisions.items():
            self.decisions[id] = Decision(waiting, stored=True, kept=True)

    def is_undecided(self) -> bool:
        """Whether to wait with serving: an answer may come soon whose effect clients would miss."""
        return self.state.now < self._deadline and any(self.has_ended(id) for id in self.doubts)

    def id_of(self, link: Link, number: int) -> bytes:
        """The id of an acceptor's transaction, unique over all incarnations of all shards."""
        _, index, incarnation = incarnation_of(link.identity)
        return TRANSACTION.pack(self.state.gauges.epoch, index, incarnation, number)

    def has_ended(self, id: bytes) -> bool:
        """Whether the incarnation of the transaction's acceptor is over, and everything it sent has been applied."""
        epoch, index, incarnation, _ = TRANSACTION.unpack(id)
        if epoch != self.state.gauges.epoch:
            return True
        self.apply_known_deaths(index)
        return bool(incarnation <= self.state.dead.get(("acceptor", index), 0))

    # Operations of acceptors

    def prepare(self, link: Link, number: int, part: Part) -> None:
        """Keep a part, hidden, and record it."""
        id = self.id_of(link, number)
        self.parts[id] = part
        self.weight += part.weight
        record = part.record(self.state) if self.state.journal is not None else None
        if record is not None and self.state.journal is not None:
            part.stored = True
            self.state.journal.prepare(id, record, part.nbytes)

    def prepared(self, link: Link, asked: to_shard.Prepared) -> None:
        """Reply once a part is kept: whether the store has it."""
        part = self.parts.get(self.id_of(link, asked.number))
        stored = part is not None and part.stored
        self.commits.when_kept(partial(link.reply, asked.request, stored))

    def decide(self, link: Link, decide: to_shard.Decide) -> None:
        """All parts are kept: decide to do the transaction, and reply once the decision is kept too."""
        id = self.id_of(link, decide.number)
        decision = self.decisions.get(id)
        if decision is None:
            decision = self.decisions[id] = Decision(decide.others, decide.stored, kept=False)
            if decide.stored and self.state.journal is not None:
                self.state.journal.decide(id, bus.pack(decide.others))
        if not decision.stored:
            self._commit(id)
        self.commits.when_kept(partial(self._is_kept, id, decision, link, decide.request))

    def _is_kept(self, id: bytes, decision: Decision, link: Link, request: int) -> None:
        decision.kept = True
        self._commit(id)
        link.reply(request, None)

    def do(self, link: Link, do: to_shard.Do) -> None:
        """The transaction is decided: do this part, unless that has been done, and reply once that is kept."""
        id = self.id_of(link, do.number)
        part = self._commit(id)
        if part is not None and part.decider != self.state.index:
            self._promise_done(part.decider, id)
        self.commits.when_kept(partial(link.reply, do.request, None))

    def died(self, index: int, incarnation: int) -> None:
        """An acceptor has died: the transactions it coordinated are in doubt."""
        for id in self._of(self.parts, index, incarnation):
            self.doubts[id] = self.parts[id]
            self._wake = 0
        for id in self._of(self.decisions, index, incarnation):
            self.decisions[id].old = True
            self._wake = 0

    def _of(self, known: Collection[bytes], index: int, incarnation: int) -> Iterator[bytes]:
        """The transactions of an acceptor's incarnations up to that one."""
        for id in known:
            epoch, acceptor, begun_in, _ = TRANSACTION.unpack(id)
            if (epoch, acceptor) == (self.state.gauges.epoch, index) and begun_in <= incarnation:
                yield id

    # Operations between shards

    def on_in_doubt(self, link: Link, doubt: to_shard.InDoubt) -> None:
        """Another shard is in doubt. While a decision is still possible it gets no answer, and asks again."""
        id, shard = doubt.transaction, incarnation_of(link.identity)[1]
        decision = self.decisions.get(id)
        if decision is None:
            if self.has_ended(id):
                self._send(shard, to_shard.Outcome(id, False))
        elif decision.kept:
            self._send(shard, to_shard.Outcome(id, True))

    def on_outcome(self, link: Link, outcome: to_shard.Outcome) -> None:
        """The decider announces the outcome of a transaction."""
        if outcome.commits:
            self._commit(outcome.transaction)
            self._promise_done(incarnation_of(link.identity)[1], outcome.transaction)
        else:
            self._abort(outcome.transaction)

    def _promise_done(self, decider: int, id: bytes) -> None:
        """Send Done to the decider once it is kept that nothing of a transaction remains here."""
        if id not in self._promised:
            self._promised.add(id)
            self.commits.when_kept(partial(self._send_done, decider, id))

    def _send_done(self, decider: int, id: bytes) -> None:
        self._promised.discard(id)
        self._send(decider, to_shard.Done(id))

    def on_done(self, link: Link, done: to_shard.Done) -> None:
        """Another shard has kept that its part is done, or that it has none."""
        decision = self.decisions.get(done.transaction)
        if decision is not None:
            decision.waiting.discard(incarnation_of(link.identity)[1])
            self._forget(done.transaction)

    def _send(self, shard: int, operation: Operation) -> None:
        """Send an operation to a shard if it is up; otherwise it will be repeated later."""
        peer = self.peers[shard]
        if peer.stage is UP:
            peer.add_operation(operation)

    # Outcomes

    def _commit(self, id: bytes) -> Part | None:
        part = self._pop(id)
        if part is not None:
            part.commit(self.state, self.intake)
        return part

    def _abort(self, id: bytes) -> None:
        part = self._pop(id)
        if part is not None:
            part.abort(self.state)

    def _pop(self, id: bytes) -> Part | None:
        part = self.parts.pop(id, None)
        self.doubts.pop(id, None)
        if part is not None:
            self.weight -= part.weight
            if part.stored and self.state.journal is not None:
                self.state.journal.prepare(id, None, part.nbytes)
        return part

    def _forget(self, id: bytes) -> None:
        """Forget a decision that no shard waits for, this one included."""
        decision = self.decisions[id]
        if decision.kept and not decision.waiting and id not in self.parts:
            del self.decisions[id]
            if decision.stored and self.state.journal is not None:
                self.state.journal.decide(id, None)

    def first_held(self, queue: QueueState) -> list[int]:
        """The lowest sequence number that each part is to settle of a queue."""
        return [sequence for part in self.parts.values() for sequence in part.first_held(queue)]

    # At the end of a turn

    def repeat_unanswered(self) -> None:
        """Ask about parts in doubt, and repeat decisions without an answer."""
        met = self.peers.met
        if self.state.version < 0 or (met == self._met and self.state.now < self._wake):
            return
        self._met, self._wake = met, self.state.now + REPEAT_US
        shards = self.state.topology.shards
        for id, part in list(self.doubts.items()):
            if part.decider != self.state.index and part.decider in shards:
                self._send(part.decider, to_shard.InDoubt(id))
            elif (decision := self.decisions.get(id)) is not None:
                if decision.kept:
                    self._commit(id)
            elif self.has_ended(id):
                self._abort(id)
        for id, decision in list(self.decisions.items()):
            decision.waiting &= shards.keys()
            for shard in decision.waiting if decision.old and decision.kept else ():
                self._send(shard, to_shard.Outcome(id, True))
            decision.old = True
            self._forget(id)

    def next_wake(self) -> int:
        """When the next repetition is due, in microseconds since 1970; NEVER if nothing waits."""
        waits = (self.doubts or self.decisions) and self.state.version >= 0
        return self._wake if waits else NEVER
