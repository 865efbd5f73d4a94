"""The facts of a store about itself: numbers by name (shard/store/stored.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shard.contents.errors import StoreError
from shard.store.sealed_cy import seal, unseal
from shard.store.stored import FORMAT, NUMBER

FACTS = "facts"


def facts_of(path: Path, txn: Any, db: Any, shard: int) -> dict[str, int]:
    """The facts of an open store. Raises StoreError if the store must not be used, or not by that shard; ValueError or
    struct.error if they are damaged.
    """
    raw = {bytes(name): bytes(value) for name, value in txn.cursor(db)}
    format = NUMBER.unpack(raw.get(b"format", NUMBER.pack(FORMAT)))[0]
    if not 1 <= format <= FORMAT:
        raise StoreError(path, f"it is of format {format}, this penstock knows format {FORMAT}")
    if raw and b"format" not in raw:
        raise ValueError("its format is not recorded")
    found = {name.decode(): _fact(name, value, format) for name, value in raw.items()}
    if found.get("shard", shard) != shard:
        raise StoreError(path, f"it is the store of shard {found['shard']}")
    return found


def put_fact(txn: Any, db: Any, name: str, number: int) -> None:
    """Write one fact. The format has no checksum, so that every version of penstock can read it."""
    key, record = name.encode(), NUMBER.pack(number)
    txn.put(key, record if name == "format" else seal(FACTS, key, record), db=db)


def _fact(name: bytes, value: bytes, format: int) -> int:
    plain = name == b"format" or format == 1
    number: int = NUMBER.unpack(value if plain else unseal(FACTS, name, value))[0]
    return number
