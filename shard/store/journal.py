"""The changes that a shard must write: gathered turn by turn, handed over as one commit, which is written whole.

Anything gone before the handover is never written. A segment is packed at the handover, so everything that happens to
it before costs the store one record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.batch.batch_cy import PERSISTENT, Batch
from shard.contents.segment_cy import Segment
from shard.store.stored import KEY, NUMBER, held_key, pack_segment

Key = tuple[int, int]
"""Queue id and sequence number (of a message, or a segment's first), or queue id and priority."""

Records = dict[bytes, bytes | None]
"""Records to write by key; None deletes."""

Pieces = Sequence[bytes | memoryview]
"""A record that is joined when it is written."""


@dataclass(slots=True)
class Gathered:
    """Gathered changes: segments to write, and the latest numbers by key.

    A `removed` segment may be `added` again: if that one goes before it is written, the stored one must be removed all
    the same.
    """

    added: dict[Key, tuple[Segment, Batch, int]] = field(default_factory=dict)
    marked: dict[Key, Segment] = field(default_factory=dict)
    removed: dict[tuple[Key, bool], None] = field(default_factory=dict)
    leases: dict[Key, int | None] = field(default_factory=dict)
    counts: dict[Key, int | None] = field(default_factory=dict)
    held: Records = field(default_factory=dict)
    links: Records = field(default_factory=dict)
    prepared: dict[bytes, Pieces | None] = field(default_factory=dict)
    decisions: Records = field(default_factory=dict)

    def is_empty(self) -> bool:
        """Whether nothing has been gathered."""
        return not (
            self.added or self.marked or self.removed or self.leases or self.counts or self.held or self.links
            or self.prepared or self.decisions
        )  # fmt: skip


@dataclass(slots=True)
class Segments:
    """Records of segments to write; each value of `contents` is in two parts."""

    index: Records = field(default_factory=dict)
    contents: dict[bytes, tuple[memoryview, memoryview] | None] = field(default_factory=dict)


@dataclass(slots=True)
class Commit:
    """Records to write, by database. Spilled ones carry no promise. `gathered` is their source."""

    gathered: Gathered
    kept: Segments = field(default_factory=Segments)
    spilled: Segments = field(default_factory=Segments)
    leases: Records = field(default_factory=dict)
    counts: Records = field(default_factory=dict)
    held: Records = field(default_factory=dict)
    links: Records = field(default_factory=dict)
    prepared: dict[bytes, Pieces | None] = field(default_factory=dict)
    decisions: Records = field(default_factory=dict)

    @property
    def promises(self) -> bool:
        """Whether there is anything to write that is not spilled."""
        return bool(
            self.kept.index or self.leases or self.counts or self.held or self.links or self.prepared or self.decisions
        )


class Journal:
    """The changes since the last commit. `read` returns the contents of a key as a batch of that many rows, kept or
    spilled.

    `nbytes` is the size of rows and contents in the store, including the commit in flight; `spilled` is the spilled
    part.
    """

    def __init__(self, read: Callable[[bytes, int, bool], Batch]) -> None:
        self.read = read
        self.nbytes = 0
        self.spilled = 0
        self._gathered = Gathered()
        self._under_way: Commit | None = None

    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return self._gathered.is_empty()

    # Changes of queues (shard/contents/queue_cy.py)

    def add(self, queue_id: int, segment: Segment) -> None:
        """A segment is new, or has new contents."""
        assert segment.batch is not None
        self._gathered.added[queue_id, segment.sequence] = segment, segment.batch, segment.first

    def mark(self, queue_id: int, segment: Segment) -> None:
        """Some messages of a segment are settled."""
        self._gathered.marked[queue_id, segment.sequence] = segment

    def remove(self, queue_id: int, segment: Segment) -> None:
        """All messages of a segment are settled."""
        key = queue_id, segment.sequence
        self._gathered.added.pop(key, None)
        self._gathered.marked.pop(key, None)
        if segment.nbytes:
            self.nbytes -= segment.nbytes
            self.spilled -= segment.nbytes if segment.spilled else 0
            segment.nbytes = 0
            if segment.damaged:  # freeing damaged pages would damage others
                self._gathered.marked[key] = segment
            else:
                self._gathered.removed[key, segment.spilled] = None

    def lease(self, queue_id: int, priority: int, delivered_to: int | None) -> None:
        """Messages of a priority below that number may have been delivered; None when the queue is gone."""
        self._gathered.leases[queue_id, priority] = delivered_to

    def count(self, queue_id: int, sequence: int, deliveries: int) -> None:
        """Record a message's delivery count; 0 when it is gone."""
        self._gathered.counts[queue_id, sequence] = deliveries or None

    def put_lease(self, queue_id: int, id: str, record: bytes | None) -> None:
        """Record the messages of a consumers' lease (shard/serving/leases.py); None deletes it."""
        self._gathered.held[held_key(queue_id, id)] = record

    def waits(self, queue_id: int, segment: Segment) -> bool:
        """Whether the contents of a segment still have to be written, or are being written."""
        key = queue_id, segment.sequence
        return key in self._gathered.added or (self._under_way is not None and key in self._under_way.gathered.added)

    def load(self, queue_id: int, segment: Segment) -> Batch:
        """The batch of a segment that only the store has."""
        return self.read(KEY.pack(queue_id, segment.sequence), segment.count, segment.spilled)

    # Changes of the shard

    def link(self, identity: bytes, record: bytes | None) -> None:
        """Record which turns an acceptor or another shard need not resend; None when it is gone for good."""
        self._gathered.links[identity] = record

    def prepare(self, transaction: bytes, record: Pieces | None, nbytes: int) -> None:
        """Record a part of a transaction with `nbytes` of rows and contents; None when it is done or undone."""
        self._gathered.prepared[transaction] = record
        self.nbytes += nbytes if record is not None else -nbytes

    def decide(self, transaction: bytes, record: bytes | None) -> None:
        """Record that a transaction is to be done everywhere; None when it has been."""
        self._gathered.decisions[transaction] = record

    def count_recovered(self, segment: Segment) -> None:
        """Count a segment that is in the store from an earlier incarnation."""
        self.nbytes += segment.nbytes
        self.spilled += segment.nbytes if segment.spilled else 0

    def hand_over(self) -> Commit:
        """Hand over all gathered changes, to be written whole and before any later ones. The commit is in flight until
        it is `written` or taken back.
        """
        gathered, self._gathered = self._gathered, Gathered()
        self._under_way = commit = Commit(gathered)
        for key, spilled in gathered.removed:
            packed, part = KEY.pack(*key), commit.spilled if spilled else commit.kept
            part.index[packed] = part.contents[packed] = None
        for key, (segment, batch, first) in gathered.added.items():
            packed, part = KEY.pack(*key), commit.spilled if segment.spilled else commit.kept
            rows, contents = part.contents[packed] = batch.slices(first, segment.count)
            more = len(rows) + len(contents) - segment.nbytes
            self.nbytes += more
            self.spilled += more if segment.spilled else 0
            segment.nbytes = len(rows) + len(contents)
            segment.mixed = not batch.common_flags(first, segment.count) & PERSISTENT
            part.index[packed] = pack_segment(segment)
        for key, segment in gathered.marked.items():
            (commit.spilled if segment.spilled else commit.kept).index[KEY.pack(*key)] = pack_segment(segment)
        commit.leases = _pack(gathered.leases)
        commit.counts = _pack(gathered.counts)
        commit.held = gathered.held
        commit.links = gathered.links
        commit.prepared = gathered.prepared
        commit.decisions = gathered.decisions
        return commit

    def written(self) -> None:
        """The commit handed over is in the store."""
        self._under_way = None

    def take_back(self, commit: Commit) -> None:
        """A commit could not be written: gather its changes again, unless later ones replace them."""
        self._under_way = None
        before, now = commit.gathered, self._gathered
        gone = {key for key, _ in now.removed}
        for key, entry in before.added.items():
            if key not in gone:
                now.added.setdefault(key, entry)
        for key, segment in before.marked.items():
            if key not in gone:
                now.marked.setdefault(key, segment)
        now.removed = {**before.removed, **now.removed}
        now.leases = {**before.leases, **now.leases}
        now.counts = {**before.counts, **now.counts}
        now.held = {**before.held, **now.held}
        now.links = {**before.links, **now.links}
        now.prepared = {**before.prepared, **now.prepared}
        now.decisions = {**before.decisions, **now.decisions}


def _pack(numbers: dict[Key, int | None]) -> Records:
    return {KEY.pack(*key): None if number is None else NUMBER.pack(number) for key, number in numbers.items()}
