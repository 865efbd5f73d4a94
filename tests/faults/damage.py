"""Damage to the files of a node that is not running, at random places determined by a seed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PAGE = 4096

FILES = (
    "shards/0/data.mdb",
    "shards/1/data.mdb",
    "shards/0/lock.mdb",
    "shards/0/checkpoint",
    "topology.sqlite",
    "topology.sqlite-wal",
    "topology.sqlite-shm",
    "witness/node",
    "witness/topology",
    "witness/shard.1",
    "running.json",
    "lock",
)


class Harm(NamedTuple):
    """A damaged file and the kind of damage."""

    file: str
    deed: str


def flip(data: bytearray, chance: random.Random) -> str:
    """Change some bytes."""
    places = [chance.randrange(len(data)) for _ in range(chance.choice((1, 1, 3, 20)))]
    for place in places:
        data[place] ^= chance.randrange(1, 256)
    return f"octets changed at {places}"


def scramble(data: bytearray, chance: random.Random) -> str:
    """Overwrite a piece of at most a page with random bytes."""
    size = min(chance.choice((8, 64, 512, PAGE)), len(data))
    place = _place(data, size, chance)
    data[place : place + size] = chance.randbytes(size)
    return f"{size} octets random at {place}"


def blank(data: bytearray, chance: random.Random) -> str:
    """Zero a piece of at most two pages."""
    size = min(chance.choice((512, PAGE, 2 * PAGE)), len(data))
    place = chance.choice((0, _place(data, size, chance)))
    data[place : place + size] = bytes(size)
    return f"{size} octets zero at {place}"


def misplace(data: bytearray, chance: random.Random) -> str:
    """Copy a page over another one."""
    size = min(PAGE, len(data))
    source, target = (_place(data, size, chance) for _ in range(2))
    data[target : target + size] = data[source : source + size]
    return f"{size} octets of {source} at {target}"


def cut(data: bytearray, chance: random.Random) -> str:
    """Cut the end off."""
    size = chance.choice((0, len(data) // 2, max(len(data) - PAGE, 0), chance.randrange(len(data))))
    del data[size:]
    return f"cut to {size}"


DEEDS: tuple[Callable[[bytearray, random.Random], str], ...] = (flip, flip, scramble, scramble, blank, misplace, cut)


def harm(data: Path, earlier: Path, chance: random.Random) -> Harm:
    """Damage one file, remove it, or replace it by its version in `earlier`, a copy of the directory made before."""
    there = [file for file in FILES if (data / file).exists() and (data / file).stat().st_size]
    file = chance.choice([*there, "shards/0/data.mdb", "shards/1/data.mdb", "topology.sqlite"])
    path = data / file
    kind = chance.randrange(10)
    if kind == 0:
        path.unlink()
        return Harm(file, "removed")
    if kind == 1 and file.startswith("shards"):
        shutil.rmtree(path.parent)
        return Harm(file, "directory removed")
    if kind == 2 and (earlier / file).exists():
        shutil.copy(earlier / file, path)
        return Harm(file, "put back as it was before")
    stored = bytearray(path.read_bytes())
    deed = chance.choice(DEEDS)(stored, chance)
    path.write_bytes(stored)
    return Harm(file, deed)


def _place(data: bytearray, size: int, chance: random.Random) -> int:
    """Return a place for `size` bytes: at the beginning of a page, or anywhere in it."""
    last = len(data) - size
    place = chance.randrange(last + 1)
    return place // PAGE * PAGE if chance.randrange(2) else place
