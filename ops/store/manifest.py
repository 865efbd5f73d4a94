"""DIR/manifest.json of a backup: the list of its contents, by which missing and changed files are detected.

It is written last. JSON:

    format     1
    penstock   the version that made it
    node       number of the node
    epochs     the runs that wrote its stores last
    taken      the moment of the backup: microseconds since 1970
    commits    number of commits of each store, by name of its witness (penstock/files/witness.py)
    problems   number of problems that `check` found in the stores when they were backed up
    files      size in bytes and SHA-256 of each file, by path in DIR
    checksum   SHA-256 of all these, as compact JSON with its keys in order
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import orjson

from ops.errors import CommandError
from penstock.files.directories import private

NAME = "manifest.json"
FORMAT = 1
PIECE = 1024 * 1024


class File(NamedTuple):
    """One file of a backup."""

    size: int
    sha256: str


@dataclass(slots=True)
class Manifest:
    """The manifest; its fields are described above."""

    penstock: str
    node: int
    epochs: list[int]
    taken: int
    commits: dict[str, int]
    problems: int
    files: dict[str, File]


def store(directory: Path, manifest: Manifest) -> None:
    """Write the manifest. OSError if that fails."""
    facts = {"format": FORMAT, **asdict(manifest)}
    facts["files"] = {path: file._asdict() for path, file in manifest.files.items()}
    facts["checksum"] = _checksum(facts)
    with open(directory / NAME, "wb", opener=private) as file:
        file.write(orjson.dumps(facts, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
        file.flush()
        os.fsync(file.fileno())


def load(directory: Path) -> Manifest:
    """Read the manifest. CommandError if it is missing, damaged, or of a newer penstock."""
    path = directory / NAME
    try:
        facts = orjson.loads(path.read_bytes())
        if facts.pop("checksum") != _checksum(facts):
            raise ValueError
        if facts["format"] == FORMAT:
            del facts["format"]
            files = {_inside(path): File(**file) for path, file in facts.pop("files").items()}
            return Manifest(**facts, files=files)
    except FileNotFoundError:
        raise CommandError(f"{directory} is not a backup, or one that was cut short: it has no {NAME}") from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise CommandError(f"{path} is damaged") from None
    raise CommandError(f"{directory} is a backup of format {facts['format']}, this penstock knows format {FORMAT}")


def digest(path: Path) -> File:
    """Return size and SHA-256 of a file. OSError if it cannot be read."""
    nbytes, sha256 = 0, hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            nbytes += len(piece)
            sha256.update(piece)
    return File(nbytes, sha256.hexdigest())


def _inside(path: str) -> str:
    """Return a path as it is; ValueError if it leads out of the backup."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise ValueError
    return path


def _checksum(facts: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)).hexdigest()
