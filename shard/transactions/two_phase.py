"""Transactions over several shards: all of it or nothing, whoever dies when (two-phase commit, presumed abort).

The acceptor that the client commits at is the *coordinator* (acceptor/two_phase.py), and keeps nothing on disk; one of
the shards that take part, the *decider*, keeps the decision.

    acceptor                      decider D                          each other shard P
       │ PREPARE, PREPARED ─────────▶│ hides its part, keeps it           │
       │ PREPARE, PREPARED ────────────────────────────────────────────▶  │ hides its part, keeps it
       │ ◀────────── all have kept theirs ────────────────────────────────┤
       │ DECIDE ────────────────────▶│ in one commit of its store: the    │
       │ ◀────────────────── kept ───┤ decision is there, its part done   │
       │ DO ───────────────────────────────────────────────────────────▶  │ its part is done
       │ ◀────────────────────────────────────────────────────── kept ────┤
     commit-ok                       │ ◀──────────────────────── DONE ────┤
                                     │ forgets the decision               │

**The invariant.** A part is done only if the decision is kept by D, and undone only if D has none and can have none any
more. D takes in a DECIDE only from the life of the acceptor that is in the transaction's id, and only that life sends
it, once all parts are kept. So the moment at which the decision is in D's store is the one at which the transaction
happens, everywhere: a part that is kept waits for that, and outlives its shard; and once the acceptor's life is over,
which is what the supervisor says when it has buried the process, no decision means that there will be none. (D's own
part is in the same commit, and may be delivered before that is written, as whatever is published may.)

**Who dies.** *P or D*: its next life has its part from the store, hidden again before anything is delivered, and the
living acceptor says again what was not answered: a PREPARE that was not safe, and each request. All of them may come
twice: who decides again decides the same, who has no part has done it. *The acceptor*: it takes the client's hope of a
commit-ok with it; each shard with a part of it is in doubt and asks D, D undoes its own. *P, having done its part but
not kept that*: it is in doubt again, and D still has the decision, for it has not heard DONE. *Everybody*: each part
that is found is in doubt; the id has the run of the node in it, so D knows that its acceptor is gone. *The router* has
no part in it.

**In doubt.** Who is asks as soon as D is met, and four times a second; for its first seconds a shard does not serve
before it knows. While D is down there is no answer, and the part stays hidden. Nothing is added to it meanwhile: it is
bounded by what clients had in commits when their acceptor died, and counts in the room of the shard
(shard/transactions/prepared.py), which holds producers when there is too much.

**What is forgotten when.** D forgets a decision when each P has kept that its part is done. A DONE that was lost is
made up for: D says OUTCOME four times a second of decisions that are that old, and whoever has no part answers DONE. So
a P that asks for what D has forgotten cannot be: it would have kept its part being done.

**Acks.** What a transaction settles leaves its consumer's hand when it is prepared, but stays unacked: it comes to
nobody else and is not lost. Done, it is acked, or dead-lettered; undone, it is requeued, and comes as redelivered.

**What is not kept.** A part of transient messages, or for queues that are not durable, dies with its shard as they do;
the rest of the transaction is done all the same. Where no shard has anything to keep neither is the decision.

**Moves.** A queue does not leave its shard while parts of it are undecided; none come any more once it is fenced, so
a move waits as long as the transactions that were on their way. A shard is not empty while it has a part or a decision.

Where commits do not wait for the disk (`store.durability`) these do: what was kept here must not be lost with the power
when what follows from it is on another disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

from penstock import bus
from shard.contents.queue_cy import NEVER
from shard.queue.queue_state import QueueState
from shard.serving.intake import Intake
from shard.store.stored import TRANSACTION
from shard.transactions.prepared import Part
from shard.turns.commits import Commits
from shard.turns.link import Link, life_of
from shard.turns.peers import Peers
from shard.turns.state import ShardState

PATIENCE_US = 5_000_000
"""A shard that starts serves when it knows what became of transactions of earlier runs, or after so long."""
AGAIN_US = 250_000
"""After so long what had no answer is said again."""


class Decision:
    """A transaction that is to be done: `waiting` are shards that may not have done it. Nobody hears of it before it is
    `kept`. It is `old` if its coordinator had the time to have it done, or has died.
    """

    def __init__(self, waiting: Collection[int], stored: bool, kept: bool) -> None:
        self.waiting = set(waiting)
        self.stored = stored
        self.kept = self.old = kept


class TwoPhase:
    """The transactions of one shard that are not over, by id: its `parts`, those of them that are in `doubt`, and the
    `decisions` that it has made for others. `look_for_deaths` takes in what is known of earlier lives of an acceptor.
    """

    def __init__(
        self, state: ShardState, peers: Peers, commits: Commits, intake: Intake, look_for_deaths: Callable[[int], None]
    ) -> None:
        self.state = state
        self.peers = peers
        self.commits = commits
        self.intake = intake
        self.look_for_deaths = look_for_deaths
        self.parts: dict[bytes, Part] = {}
        self.doubts: dict[bytes, Part] = {}
        self.decisions: dict[bytes, Decision] = {}
        self.weight = 0
        self._owed: set[bytes] = set()
        self._wake = 0
        self._met = 0
        self._deadline = state.now + PATIENCE_US

    def recover(self, parts: dict[bytes, Part], decisions: Mapping[bytes, Collection[int]]) -> None:
        """What an earlier life had."""
        self.parts |= parts
        self.doubts |= parts
        self.weight = sum(part.weight for part in parts.values())
        for id, waiting in decisions.items():
            self.decisions[id] = Decision(waiting, stored=True, kept=True)

    def is_undecided(self) -> bool:
        """Whether an answer may come soon that clients would miss."""
        return self.state.now < self._deadline and any(self.has_ended(id) for id in self.doubts)

    def id_of(self, link: Link, number: int) -> bytes:
        """The id of a transaction of an acceptor, through all lives of all shards."""
        _, index, incarnation = life_of(link.identity)
        return TRANSACTION.pack(self.state.gauges.epoch, index, incarnation, number)

    def has_ended(self, id: bytes) -> bool:
        """Whether the life of its acceptor is over, and all is taken in that ever will be of what that said."""
        epoch, index, incarnation, _ = TRANSACTION.unpack(id)
        if epoch != self.state.gauges.epoch:
            return True
        self.look_for_deaths(index)
        return bool(incarnation <= self.state.dead.get(("acceptor", index), 0))

    # What acceptors say

    def prepare(self, link: Link, number: int, part: Part) -> None:
        """A part is here, and hidden."""
        id = self.id_of(link, number)
        self.parts[id] = part
        self.weight += part.weight
        record = part.record(self.state) if self.state.journal is not None else None
        if record is not None and self.state.journal is not None:
            part.stored = True
            self.state.journal.prepare(id, record, part.octets)

    def prepared(self, link: Link, request: int, number: int) -> None:
        """Answer once a part is kept: whether the store has it."""
        part = self.parts.get(self.id_of(link, number))
        stored = part is not None and part.stored
        self.commits.when_kept(partial(link.reply, request, stored))

    def decide(self, link: Link, request: int, number: int, others: list[int], stored: bool) -> None:
        """All parts are kept: it is to be done, which is answered once that is kept too."""
        id = self.id_of(link, number)
        decision = self.decisions.get(id)
        if decision is None:
            decision = self.decisions[id] = Decision(others, stored, kept=False)
            if stored and self.state.journal is not None:
                self.state.journal.decide(id, bus.pack(others))
        self._do(id)
        self.commits.when_kept(partial(self._is_kept, decision, link, request))

    def _is_kept(self, decision: Decision, link: Link, request: int) -> None:
        decision.kept = True
        link.reply(request, None)

    def do(self, link: Link, request: int, number: int) -> None:
        """It is decided: answer once it is kept that this part is done."""
        id = self.id_of(link, number)
        part = self._do(id)
        if part is not None:
            self._owe(part.decider, id)
        self.commits.when_kept(partial(link.reply, request, None))

    def died(self, index: int, incarnation: int) -> None:
        """An acceptor died: what it coordinated is in doubt."""
        for id in self._of(self.parts, index, incarnation):
            self.doubts[id] = self.parts[id]
            self._wake = 0
        for id in self._of(self.decisions, index, incarnation):
            self.decisions[id].old = True
            self._wake = 0

    def _of(self, known: Collection[bytes], index: int, incarnation: int) -> Iterator[bytes]:
        """The transactions of lives of an acceptor up to one."""
        for id in known:
            epoch, acceptor, life, _ = TRANSACTION.unpack(id)
            if (epoch, acceptor) == (self.state.gauges.epoch, index) and life <= incarnation:
                yield id

    # What shards say to each other

    def asked(self, link: Link, id: bytes) -> None:
        """Another shard is in doubt. It hears nothing as long as there may be a decision yet, and asks again."""
        shard = life_of(link.identity)[1]
        decision = self.decisions.get(id)
        if decision is None:
            if self.has_ended(id):
                self._tell(shard, bus.OUTCOME, id, False)
        elif decision.kept:
            self._tell(shard, bus.OUTCOME, id, True)

    def heard(self, link: Link, id: bytes, done: bool) -> None:
        """The decider says what becomes of a transaction."""
        if done:
            self._do(id)
            self._owe(life_of(link.identity)[1], id)
        else:
            self._undo(id)

    def _owe(self, decider: int, id: bytes) -> None:
        """The decider is to hear once it is kept that nothing of a transaction is left here."""
        if id not in self._owed:
            self._owed.add(id)
            self.commits.when_kept(partial(self._pay, decider, id))

    def _pay(self, decider: int, id: bytes) -> None:
        self._owed.discard(id)
        self._tell(decider, bus.DONE, id)

    def has_done(self, link: Link, id: bytes) -> None:
        """Another shard has kept that its part is done, or that it has none any more."""
        decision = self.decisions.get(id)
        if decision is not None:
            decision.waiting.discard(life_of(link.identity)[1])
            self._forget(id)

    def _tell(self, shard: int, *operation: object) -> None:
        """To a life that is there; else it will be said again."""
        peer = self.peers[shard]
        if peer.up:
            peer.tell(*operation)

    # What becomes of it

    def _do(self, id: bytes) -> Part | None:
        part = self._take(id)
        if part is not None:
            part.commit(self.state, self.intake)
        return part

    def _undo(self, id: bytes) -> None:
        part = self._take(id)
        if part is not None:
            part.abort(self.state)

    def _take(self, id: bytes) -> Part | None:
        part = self.parts.pop(id, None)
        self.doubts.pop(id, None)
        if part is not None:
            self.weight -= part.weight
            if part.stored and self.state.journal is not None:
                self.state.journal.prepare(id, None, part.octets)
        return part

    def _forget(self, id: bytes) -> None:
        """Nobody need ask any more, if nobody waits."""
        decision = self.decisions[id]
        if not decision.waiting:
            del self.decisions[id]
            if decision.stored and self.state.journal is not None:
                self.state.journal.decide(id, None)

    def first_held(self, queue: QueueState) -> list[int]:
        """The lowest sequence number that each part is to settle of a queue."""
        return [sequence for part in self.parts.values() for sequence in part.first_held(queue)]

    # At the end of a turn

    def look(self) -> None:
        """Ask, and say again, what has had no answer."""
        met = self.peers.met
        if self.state.version < 0 or (met == self._met and self.state.now < self._wake):
            return
        self._met, self._wake = met, self.state.now + AGAIN_US
        shards = self.state.topology.shards
        for id, part in list(self.doubts.items()):
            if part.decider != self.state.index and part.decider in shards:
                self._tell(part.decider, bus.IN_DOUBT, id)
            elif self.has_ended(id):
                self._undo(id)
        for id, decision in list(self.decisions.items()):
            decision.waiting &= shards.keys()
            for shard in decision.waiting if decision.old and decision.kept else ():
                self._tell(shard, bus.OUTCOME, id, True)
            decision.old = True
            self._forget(id)

    def next_wake(self) -> int:
        """When to look again, microseconds since 1970; NEVER if nothing waits."""
        waits = (self.doubts or self.decisions) and self.state.version >= 0
        return self._wake if waits else NEVER
