"""When the effects of a turn are safe: at once if nothing is to be written, otherwise with the commit that writes
them.
"""

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
    """The commits of one shard, one at a time. While one is in flight (`under_way`) the journal gathers the next.

    A commit makes safe the turns of each link up to the number recorded when it is handed over. Where commits do not
    wait for the disk (`flushed_later`), turns of other shards are safe only once they are flushed: the sender forgets
    its messages then, and they must not be lost in a power failure because one store was flushed before the other.
    """

    def __init__(self, state: ShardState, gate: Gate) -> None:
        self.state = state
        self.gate = gate
        self.flushed_later = False
        self._making_safe: list[tuple[Link, int]] | None = None
        self._unflushed: dict[Link, int] = {}
        self._flushing: dict[Link, int] = {}
        self._writing: list[Callable[[], None]] = []
        self._being_written: list[Callable[[], None]] = []
        self._keeping: list[Callable[[], None]] = []
        self._being_kept: list[Callable[[], None]] = []
        self._kept_unflushed: list[Callable[[], None]] = []
        self._being_flushed: list[Callable[[], None]] = []

    @property
    def under_way(self) -> bool:
        """Whether a commit is in flight."""
        return self._making_safe is not None

    def when_written(self, action: Callable[[], None]) -> None:
        """Run an action once all that the journal has gathered is in the store, as far as it will ever be there."""
        self._writing.append(action)

    def when_kept(self, action: Callable[[], None]) -> None:
        """Run an action once all that the journal has gathered is on the disk, as far as it will ever be there."""
        self._keeping.append(action)

    def make_safe(self) -> None:
        """If nothing is to be written, make all applied turns safe."""
        journal = self.state.journal
        if self._making_safe is None and (journal is None or journal.is_empty()):
            while self._writing or self._keeping:
                being_written, self._writing = self._writing, []
                _run(being_written)
                being_kept, self._keeping = self._keeping, []
                self.are_kept(being_kept)
            for link in self.state.links.values():
                if link.safe != link.received:
                    self.are_written(link, link.received)

    def are_written(self, link: Link, turn: int) -> None:
        """The store has the effects of a link's turns up to `turn`."""
        if link.is_acceptor or not self.flushed_later:
            self.mark_safe(link, turn)
        elif self._flushing.get(link, link.safe) < turn:
            self._unflushed[link] = turn

    def are_kept(self, actions: list[Callable[[], None]]) -> None:
        """Run actions whose commit is in the store, or leave them for the next flush."""
        if self.flushed_later:
            self._kept_unflushed += actions
        else:
            _run(actions)

    def mark_safe(self, link: Link, turn: int) -> None:
        """Make a link's turns safe up to `turn`. The gauge tells a later incarnation, which may find nothing of them
        stored.
        """
        if link.receiver is not None and not link.verdicts:
            self.state.gauges.pair_write_safe(link.receiver, self.state.index, link.incarnation, turn)
        link.make_safe(turn)

    def hand_over(self) -> Commit | None:
        """The commit to write, or None if there is nothing to write or the previous commit is in flight."""
        journal = self.state.journal
        if self._making_safe is not None or journal is None or journal.is_empty():
            return None
        self._making_safe = []
        self._being_written, self._writing = self._writing, []
        self._being_kept, self._keeping = self._keeping, []
        for identity, link in self.state.links.items():
            if link.safe != link.received:
                journal.link(identity, link.record())
                self._making_safe.append((link, link.received))
        return journal.hand_over()

    def written(self) -> None:
        """The commit handed over last is in the store."""
        assert self.state.journal is not None
        self.state.journal.written()
        self.gate.store_works(UNWRITTEN, self.state.now)
        making_safe, self._making_safe = self._making_safe or [], None
        being_written, self._being_written = self._being_written, []
        _run(being_written)
        being_kept, self._being_kept = self._being_kept, []
        self.are_kept(being_kept)
        for link, turn in making_safe:
            self.are_written(link, turn)

    @property
    def awaited(self) -> bool:
        """Whether a turn or an action waits for a flush that has not begun."""
        return bool(self._unflushed or self._kept_unflushed)

    def flush_begins(self) -> None:
        """A flush to the disk begins, of everything written so far."""
        self._flushing, self._unflushed = self._unflushed, {}
        self._being_flushed, self._kept_unflushed = self._kept_unflushed, []

    def flushed(self) -> None:
        """The flush begun by `flush_begins` succeeded."""
        flushing, self._flushing = self._flushing, {}
        being_flushed, self._being_flushed = self._being_flushed, []
        _run(being_flushed)
        for link, turn in flushing.items():
            self.mark_safe(link, turn)

    def not_flushed(self) -> None:
        """The flush begun by `flush_begins` failed: its turns and actions wait for the next one."""
        self._unflushed = {**self._flushing, **self._unflushed}
        self._flushing = {}
        self._kept_unflushed = self._being_flushed + self._kept_unflushed
        self._being_flushed = []

    def failed(self, commit: Commit, reason: str) -> None:
        """The commit could not be written, for that reason: the shard's gate holds producers until one can be."""
        self.take_back(commit)
        self.gate.store_fails(UNWRITTEN, reason, self.state.now)

    def take_back(self, commit: Commit) -> None:
        """Return a commit that is not in the store to the journal, to be written with the next."""
        assert self.state.journal is not None
        self._making_safe = None
        self._writing, self._being_written = self._being_written + self._writing, []
        self._keeping, self._being_kept = self._being_kept + self._keeping, []
        self.state.journal.take_back(commit)

    def record_positions(self) -> None:
        """On an orderly end, record how far each queue was delivered, for the next incarnation."""
        for queue in self.state.queues.values():
            queue.contents.record_position()


def _run(actions: list[Callable[[], None]]) -> None:
    for action in actions:
        action()
