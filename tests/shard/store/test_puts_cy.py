"""The records of a commit in a transaction of LMDB: sealed, counted in the sums, with the checksum of contents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shard.contents.errors import DamagedError
from shard.store.environment import Environment
from shard.store.journal import Segments
from shard.store.puts_cy import put_links, put_records, put_segments
from shard.store.sealed_cy import Sums, checksum, seal, unseal
from shard.store.stored import KEY, QUEUE

KEY_7 = KEY.pack(7, 1)
OWNER = QUEUE.pack(7)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    environment = Environment(tmp_path, ("index", "contents", "leases", "links"), 1 << 20, synced=False)
    yield environment
    environment.close()


def put(environment: Environment, segments: Segments) -> Sums:
    """Write segments in a transaction of their own; return the changes of the sums."""
    sums = Sums()
    environment.write(lambda txn: put_segments(txn, environment, segments, sums))
    return sums


def records(environment: Environment, name: str) -> dict[bytes, bytes]:
    with environment.reading(name) as txn:
        return {bytes(key): bytes(value) for key, value in txn.cursor(environment[name])}


def segments(record: bytes | None, contents: tuple[bytes, bytes] | None) -> Segments:
    return Segments({KEY_7: record}, {KEY_7: None if contents is None else tuple(map(memoryview, contents))})  # type: ignore[dict-item]


def counted(*values: bytes) -> dict[bytes, tuple[int, int]]:
    """Return the sums of a queue that has these records."""
    total = sum(int.from_bytes(value[-8:], "big") for value in values)
    return {OWNER: (len(values), total % (1 << 64))}


def test_a_segment_is_written_with_the_checksum_of_its_contents(environment: Environment) -> None:
    sums = put(environment, segments(b"record", (b"rows", b"contents")))
    value = seal("index", KEY_7, b"record" + checksum(b"rowscontents"))
    assert records(environment, "contents") == {KEY_7: b"rowscontents"}
    assert records(environment, "index") == {KEY_7: value}
    assert sums.changes == counted(value)


def test_a_marked_segment_keeps_the_checksum_of_its_contents(environment: Environment) -> None:
    first = put(environment, segments(b"record", (b"rows", b"contents")))
    second = put(environment, Segments({KEY_7: b"marked"}))
    value = seal("index", KEY_7, b"marked" + checksum(b"rowscontents"))
    assert records(environment, "index") == {KEY_7: value}
    assert records(environment, "contents") == {KEY_7: b"rowscontents"}
    total = (first.changes[OWNER][1] + second.changes[OWNER][1]) % (1 << 64)
    assert (second.changes[OWNER][0], total) == (0, counted(value)[OWNER][1])


def test_a_removed_segment_is_gone_and_counted_out(environment: Environment) -> None:
    first = put(environment, segments(b"record", (b"rows", b"contents")))
    second = put(environment, segments(None, None))
    assert not records(environment, "index") and not records(environment, "contents")
    (one, before), (less, after) = first.changes[OWNER], second.changes[OWNER]
    assert (one, less, (before + after) % (1 << 64)) == (1, -1, 0)
    assert put(environment, segments(None, None)).changes == {OWNER: (0, 0)}, "there is none any more"


def test_a_mark_of_a_missing_segment_is_damage(environment: Environment) -> None:
    sums = Sums()

    def write(txn: Any) -> None:
        with pytest.raises(DamagedError, match="queue 7, message 1: missing$"):
            put_segments(txn, environment, Segments({KEY_7: b"marked"}), sums)

    environment.write(write)
    assert not records(environment, "index") and not sums.changes


def test_records_are_replaced_and_deleted_with_their_sums(environment: Environment) -> None:
    key, other = KEY.pack(7, 2), KEY.pack(7, 3)
    sums = Sums()

    def write(txn: Any) -> None:
        put_records(txn, environment, "leases", {key: b"one", other: b"two"}, sums)
        put_records(txn, environment, "leases", {key: b"three", other: None}, sums)

    environment.write(write)
    value = seal("leases", key, b"three")
    assert records(environment, "leases") == {key: value}
    assert sums.changes == counted(value)


def test_links_are_sealed_and_deleted(environment: Environment) -> None:
    identity = b"acceptor.0.1"
    for record in (b"one", b"two"):
        environment.write(lambda txn, record=record: put_links(txn, environment["links"], {identity: record}))
        assert unseal("links", identity, records(environment, "links")[identity]) == record
    environment.write(lambda txn: put_links(txn, environment["links"], {identity: None, b"unknown": None}))
    assert not records(environment, "links")
