"""When what a shard took in is safe: at once where nothing is to be written, else with the commit that writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shard.store.journal import Commit
from shard.turns.link import Link
from shard.turns.room import UNWRITTEN

if TYPE_CHECKING:
    from shard.turns.gate import Gate
    from shard.turns.state import ShardState


class Commits:
    """The commits of one shard, one at a time. While one is `under_way` the journal gathers the next.

    What it makes safe is noted when it is handed over: turns of links up to a number. Where commits do not wait for
    the disk (`flushed_later`) turns of other shards are only safe once they are flushed: what they bring is forgotten
    there, and must not be lost with the power because one store is flushed before the other.
    """

    def __init__(self, state: ShardState, gate: Gate) -> None:
        self.state = state
        self.gate = gate
        self.flushed_later = False
        self._making_safe: list[tuple[Link, int]] | None = None
        self._unflushed: dict[Link, int] = {}
        self._flushing: dict[Link, int] = {}
        self._keeping: list[Callable[[], None]] = []
        self._being_kept: list[Callable[[], None]] = []
        self._kept_unflushed: list[Callable[[], None]] = []
        self._being_flushed: list[Callable[[], None]] = []

    @property
    def under_way(self) -> bool:
        return self._making_safe is not None

    def when_kept(self, action: Callable[[], None]) -> None:
        """To be done once all that gathered until now is on the disk, as far as it is ever to be there."""
        self._keeping.append(action)

    def make_safe(self) -> None:
        """Where nothing is to be written what was taken in is safe, and is reported."""
        if not self.under_way and not self.state.journal:
            self.are_kept(self._keeping)
            self._keeping = []
            for link in self.state.links.values():
                if link.safe != link.taken:
                    self.are_written(link, link.taken)

    def are_written(self, link: Link, turn: int) -> None:
        """The store has what turns of a link did, up to that one."""
        if link.is_acceptor or not self.flushed_later:
            self.note_safe(link, turn)
        elif self._flushing.get(link, link.safe) < turn:
            self._unflushed[link] = turn

    def are_kept(self, actions: list[Callable[[], None]]) -> None:
        """What these wait for is in the store."""
        if self.flushed_later:
            self._kept_unflushed += actions
        else:
            for action in actions:
                action()

    def note_safe(self, link: Link, turn: int) -> None:
        """Turns of a link are safe up to that one. A later life must know it though it may find nothing of them."""
        if link.receiver is not None and not link.verdicts:
            self.state.gauges.pair_write_safe(link.receiver, self.state.index, link.incarnation, turn)
        link.make_safe(turn)

    def hand_over(self) -> Commit | None:
        """What is to be written now, if anything; nothing while the commit before is under way."""
        journal = self.state.journal
        if self.under_way or not journal:
            return None
        self._making_safe = []
        self._being_kept, self._keeping = self._keeping, []
        for identity, link in self.state.links.items():
            if link.safe != link.taken:
                journal.link(identity, link.record())
                self._making_safe.append((link, link.taken))
        return journal.hand_over()

    def written(self) -> None:
        """What was handed over is in the store."""
        assert self.state.journal is not None
        self.state.journal.written()
        self.gate.store_works(UNWRITTEN, self.state.now)
        making_safe, self._making_safe = self._making_safe or [], None
        being_kept, self._being_kept = self._being_kept, []
        self.are_kept(being_kept)
        for link, turn in making_safe:
            self.are_written(link, turn)

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for a flush that has not begun."""
        return bool(self._unflushed or self._kept_unflushed)

    def flush_begins(self) -> None:
        """What is written by now is being flushed to the disk."""
        self._flushing, self._unflushed = self._unflushed, {}
        self._being_flushed, self._kept_unflushed = self._kept_unflushed, []

    def flushed(self) -> None:
        """That is done."""
        flushing, self._flushing = self._flushing, {}
        being_flushed, self._being_flushed = self._being_flushed, []
        for action in being_flushed:
            action()
        for link, turn in flushing.items():
            self.note_safe(link, turn)

    def not_flushed(self) -> None:
        """That could not be done."""
        self._unflushed = {**self._flushing, **self._unflushed}
        self._flushing = {}
        self._kept_unflushed = self._being_flushed + self._kept_unflushed
        self._being_flushed = []

    def failed(self, commit: Commit, reason: str) -> None:
        """What was handed over could not be written, for that reason: publishers wait until it can be."""
        self.take_back(commit)
        self.gate.store_fails(UNWRITTEN, reason, self.state.now)

    def take_back(self, commit: Commit) -> None:
        """What was handed over is not in the store: it gathers with the rest."""
        assert self.state.journal is not None
        self._making_safe = None
        self._keeping = self._being_kept + self._keeping
        self._being_kept = []
        self.state.journal.take_back(commit)

    def note_positions(self) -> None:
        """The shard ends in order: the next life is to know exactly what was delivered."""
        for queue in self.state.queues.values():
            queue.contents.note_position()
