"""DATA/witness/node: which node the stores are of, and which runs of it may have written them last.

Those are the last run that served, and each one since that ended before it did. Replaced as a whole by the supervisor.
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
    """A number that no other node has; SQLite's integers have 63 bits."""
    return secrets.randbits(62) + 1


def load(data: Path) -> Identity | None:
    """What was stored last; None if nothing ever was. OSError, ValueError if it cannot be read."""
    try:
        octets = (data / FOLDER / NAME).read_bytes()
    except FileNotFoundError:
        return None
    fact = orjson.loads(octets)
    if not isinstance(fact, list) or len(fact) != 3 or fact[2] != _sum(fact[0], fact[1]):
        raise ValueError("it is not what was written")
    return Identity(fact[0], tuple(fact[1]))


def store(data: Path, identity: Identity) -> None:
    """OSError if that cannot be done; then what was stored before is still there."""
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
