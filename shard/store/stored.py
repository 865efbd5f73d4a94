"""How a shard's contents are stored: keys and records of the store, format 3.

Each shard has an LMDB environment with these databases. Numbers in keys are big-endian, so that they sort; in records
little-endian.

    index      queue id (8), sequence of the first message (8)  -> a segment without its contents:
                   count (4), flags (4), bytes of bodies (8), bytes of rows and contents (8), expiry (8),
                   with DONE a bit for each message that the store need not know any more,
                   with REJECTED likewise a bit for each that was rejected, buried or not,
                   with EXPIRIES the expiry of each message (8 each);
                   at last the checksum of its contents (8). Those of one that is DAMAGED were set aside
    contents   the same key                                     -> rows, then contents, of a batch (penstock/batch/)
    leases     queue id (8), priority (8)                       -> lower numbers may have been delivered (8)
    counts     queue id (8), sequence (8)                       -> how often a message was requeued (8)
    held       queue id (8), id of a lease of consumers         -> the lease:
                   how long it outlives a consumer (8), until when (8), then ranges of sequence (8), count (8)
    links      identity of an acceptor or another shard         -> turns it need not resend (shard/turns/link.py)
    prepared   a transaction                                    -> its part here (shard/transactions/prepared.py)
    decisions  a transaction                                    -> msgpack: the shards that may not have done it yet
    totals     queue id (8)                                     -> how many records it has in index, leases, counts and
                                                                   held (8), the sum of their checksums modulo 2**64 (8)
               `parts`, `decided`                               -> the same of all of prepared, of all of decisions
    facts      format, shard, life, epoch, node, commits        -> number (8)

Each record but contents and the format ends in its checksum (shard/store/sealed_cy.py).

A second environment beside it, `spill`, has an index and contents of the same form, for messages stored only to save
memory: it is never flushed to the disk, and emptied when the node starts.

The key of a transaction: epoch of the node (8), index (4) and incarnation (4) of its acceptor, its number there (8).

Times are microseconds of the node's clock. `shard` is the shard's index, `life` counts the starts of the store, `epoch`
is the run of the node that wrote last, `node` the node's number, `commits` counts the store's transactions. A new
format gets a new number, and `shard/store/takeover.py` a step from the format before. Format 1 had no checksums and no
totals, format 2 no totals of transactions.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from penstock.batch.batch_cy import Batch
from shard.contents.segment_cy import Segment
from shard.store.sealed_cy import CHECKSUM, unseal

FORMAT = 3
DATABASES = ("index", "contents", "leases", "counts", "held", "links", "prepared", "decisions", "totals", "facts")
SPILL_DATABASES = ("index", "contents", "totals")

KEY = Struct(">QQ")
QUEUE = Struct(">Q")
PAIR = Struct("<QQ")
NUMBER = Struct("<Q")
TRANSACTION = Struct(">QIIQ")
_INDEX = Struct("<IIQQq")

Held = tuple[int, int, list[tuple[int, int]]]
"""How long a lease outlives its consumer, until when it is held (microseconds), its messages as (sequence, count)."""

DONE, EXPIRIES, MIXED, AGAIN, REJECTED, DAMAGED = 1, 2, 4, 8, 16, 32
"""Flags of a segment: which bits and expiries follow the fixed part of its record; some messages are not persistent;
some may have been delivered before they came; some were rejected; its contents were damaged.
"""


def held_key(queue_id: int, id: str) -> bytes:
    """The key of a lease."""
    return QUEUE.pack(queue_id) + id.encode("utf-8", "surrogateescape")


def unpack_held_key(key: bytes) -> tuple[int, str]:
    """Queue id and id of a lease, from its key. Raises struct.error if the key is malformed."""
    return QUEUE.unpack_from(key)[0], key[QUEUE.size :].decode("utf-8", "surrogateescape")


def pack_held(lasts: int, until: int, ranges: Iterable[tuple[int, int]]) -> bytes:
    """The record of a lease; ranges are (start, end), end exclusive."""
    return b"".join((PAIR.pack(lasts, until), *(PAIR.pack(low, high - low) for low, high in ranges)))


def unpack_held(record: bytes) -> Held:
    """The inverse of `pack_held`, with ranges as (start, count). Raises ValueError if the record is malformed."""
    if not record or len(record) % PAIR.size:
        raise ValueError(f"a lease's record of {len(record)} bytes")
    (lasts, until), *ranges = PAIR.iter_unpack(record)
    return lasts, until, ranges


def pack_segment(segment: Segment) -> bytes:
    """The index record of a segment."""
    done, rejected, expiries = segment.done or b"", segment.unwanted or b"", segment.expiries or b""
    flags = (DONE if done else 0) | (EXPIRIES if expiries else 0) | (MIXED if segment.mixed else 0)
    flags |= (AGAIN if segment.again else 0) | (REJECTED if rejected else 0) | (DAMAGED if segment.damaged else 0)
    fixed = _INDEX.pack(segment.count, flags, segment.body_bytes, segment.nbytes, segment.expiry)
    return b"".join((fixed, done, rejected, expiries)) if flags else fixed


def unpack_segment(sequence: int, record: bytes) -> Segment:
    """A segment without its batch. Raises ValueError if the record is malformed."""
    if len(record) < _INDEX.size:
        raise ValueError(f"an index record of {len(record)} bytes")
    count, flags, body_bytes, nbytes, expiry = _INDEX.unpack_from(record)
    segment = Segment(None, 0, count, sequence)
    segment.body_bytes, segment.nbytes, segment.expiry = body_bytes, nbytes, expiry
    segment.stored_whole()
    segment.stored, segment.mixed, segment.again = True, bool(flags & MIXED), bool(flags & AGAIN)
    segment.damaged = bool(flags & DAMAGED)
    bits, at = (count + 7) // 8, _INDEX.size
    size = at + bits * (bool(flags & DONE) + bool(flags & REJECTED)) + (8 * count if flags & EXPIRIES else 0)
    if len(record) != size:
        raise ValueError(f"an index record of {len(record)} bytes for {count} messages")
    if flags & DONE:
        segment.done = bytearray(record[at : at + bits])
        at += bits
        segment.kept = count - int.from_bytes(segment.done, "little").bit_count()
    if flags & REJECTED:
        segment.unwanted = bytearray(record[at : at + bits])
    if flags & EXPIRIES:
        segment.expiries = bytearray(record[-8 * count :])
    if segment.kept <= 0 and not segment.damaged:
        raise ValueError(f"an index record with {segment.kept} of {count} messages")
    return segment


def unpack_index(key: bytes, value: bytes | memoryview) -> tuple[Segment, bytes]:
    """A segment without its batch, and the checksum of its contents. Raises ValueError if they are not as written."""
    record = unseal("index", key, value)
    return unpack_segment(KEY.unpack(key)[1], record[:-CHECKSUM]), record[-CHECKSUM:]


def unpack_contents(count: int, value: bytes | memoryview) -> Batch:
    """A copied batch from stored contents. Raises ValueError if they are too short for `count` messages."""
    split = 16 * count
    if len(value) < split:
        raise ValueError(f"{len(value)} bytes for {count} messages")
    return Batch(bytes(value[:split]), bytes(value[split:]))
