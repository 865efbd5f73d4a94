"""DATA/witness/node: the node of the stores, and the runs that may have written them last.

Those are the last run that served, and each later run that ended before it served. The supervisor replaces the file as
a whole.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import orjson

from penstock.files.directories import private, sync_directories
from penstock.files.witness import FOLDER

NAME = "node"


class Identity(NamedTuple):
    """A node: its random number, and the epochs of those runs."""

    node: int
    epochs: tuple[int, ...]


def new_node() -> int:
    """Return a random number for a node, which fits SQLite's integers of 63 bits."""
    return secrets.randbits(62) + 1


def load(data: Path) -> Identity | None:
    """Read the identity; None if none was ever stored. OSError or ValueError if it cannot be read."""
    try:
        stored = (data / FOLDER / NAME).read_bytes()
    except FileNotFoundError:
        return None
    fact = orjson.loads(stored)
    if not isinstance(fact, list) or len(fact) != 3 or fact[2] != _sum(fact[0], fact[1]):
        raise ValueError("it is not what was written")
    return Identity(fact[0], tuple(fact[1]))


def store(data: Path, identity: Identity) -> None:
    """Replace the identity. OSError if that fails; the previous one is then kept."""
    path = data / FOLDER / NAME
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    with open(unfinished, "wb", opener=private) as file:
        file.write(orjson.dumps([*identity, _sum(*identity)]))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_directories(path.parent, data)


def _sum(node: object, epochs: object) -> int:
    return crc32(orjson.dumps([node, epochs]))
