"""Checksums of records, and the sums of queues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.store.sealed_cy import TOTAL, TOTALS, Sums, seal, unseal
from shard.store.stored import KEY, QUEUE
from tests.twins import load_compiled, load_plain

RECORD = st.binary(max_size=40)


@given(RECORD, RECORD)
def test_what_was_sealed_comes_back(key: bytes, record: bytes) -> None:
    assert unseal("index", key, seal("index", key, record)) == record


@given(st.binary(max_size=40), RECORD, st.data())
def test_any_octet_that_changes_is_seen(key: bytes, record: bytes, data: st.DataObject) -> None:
    value = bytearray(seal("index", key, record))
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="a record of index is damaged"):
        unseal("index", key, bytes(value))


def test_a_record_belongs_to_its_key_and_database() -> None:
    value = seal("index", b"key", b"record")
    for name, key in (("leases", b"key"), ("index", b"yek")):
        with pytest.raises(ValueError, match="damaged"):
            unseal(name, key, value)


@pytest.mark.parametrize("value", [b"", b"short"])
def test_too_short_for_a_checksum(value: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unseal("index", b"key", value)


def total(owner: bytes, *values: bytes) -> bytes:
    checksums = sum(int.from_bytes(value[-8:], "big") for value in values)
    return seal(TOTALS, owner, TOTAL.pack(len(values), checksums % (1 << 64)))


def test_the_sums_of_a_queue_are_those_of_what_it_has() -> None:
    queue, key = QUEUE.pack(7), KEY.pack(7, 1)
    one, two = seal("index", key, b"one"), seal("leases", key, b"two")
    sums = Sums()
    for value in (one, two):
        sums.replace("index", key, None, value)
    with pytest.raises(ValueError, match="queue 7 has 2 of 1 records"):
        sums.compare(queue, total(queue, one))
    assert sums.rest() == []
    sums.replace("index", key, None, one)
    with pytest.raises(ValueError, match="queue 7 has records from another time"):
        sums.compare(queue, total(queue, two))
    sums.replace("index", key, None, one)
    sums.replace("index", key, one, two)
    sums.compare(queue, total(queue, two))
    sums.replace("index", key, None, one)
    assert sums.rest() == ["queue 7 has 1 of 0 records"]


REPLACED = st.tuples(
    st.sampled_from(["index", "prepared", "decisions"]),
    st.binary(min_size=8, max_size=10),
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=20),
)


@given(st.lists(REPLACED))
def test_compiled_and_plain_come_to_the_same_sums(changes: list[tuple[str, bytes, bytes | None, bytes | None]]) -> None:
    compiled, plain = (load("shard.store.sealed_cy").Sums() for load in (load_compiled, load_plain))
    for change in changes:
        compiled.replace(*change)
        plain.replace(*change)
    assert compiled.changes == plain.changes
