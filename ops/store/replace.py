"""`penstock store restore DIR`: puts a backup in the place of the stores of a data directory.

The backup is copied beside the stores and checked as a start would; only then are files renamed. Witnesses are
exchanged last: a node does not start on an exchange that was cut short, and the old stores still exist.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import BinaryIO

from ops.errors import CommandError
from ops.store import identity
from ops.store.identity import Identity
from ops.store.manifest import PIECE, File, Manifest
from ops.store.opened import FOLDER
from ops.store.recognition import Standing
from penstock.files import kept_clock
from penstock.files.directories import private, set_aside, sync_directories
from penstock.files.witness import FOLDER as WITNESSES
from penstock.files.witness import Witness
from router.storage.store import FILE_NAME as TOPOLOGY_FILE

BESIDE = "restoring"
OLD = (TOPOLOGY_FILE, f"{TOPOLOGY_FILE}-wal", f"{TOPOLOGY_FILE}-shm", FOLDER, kept_clock.FILE_NAME, WITNESSES)
NEW = (FOLDER, TOPOLOGY_FILE, kept_clock.FILE_NAME)


def replace(source: Path, made: Manifest, data: Path) -> list[str]:
    """Put the backup in `source` in place, and return the new names of the old files. CommandError if the backup is
    damaged or unusable, or cannot be written; nothing is then changed.
    """
    beside = data / BESIDE
    try:
        _check_place(data)
        _check_files(source, made)
        shutil.rmtree(beside, ignore_errors=True)  # of a run that was cut short
        beside.mkdir(mode=0o700)
        try:
            _copy_all(source, made, beside)
            _check_copy(source, beside)
            return _exchange(beside, data)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise CommandError(f"cannot restore {source}: {error.filename or data}: {error.strerror}") from None


def _check_place(data: Path) -> None:
    """Raise CommandError if a file cannot be renamed within the directory."""
    for path in (data / name for name in OLD):
        if path.is_symlink() or (path.exists() and path.stat().st_dev != data.stat().st_dev):
            raise CommandError(f"{path} is a link, or on another file system: restore into another data directory")


def _check_files(source: Path, made: Manifest) -> None:
    """Check that all files are there in full size, before they are read."""
    wrong = []
    for name, file in made.files.items():
        path = source / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif (nbytes := path.stat().st_size) != file.size:
            wrong.append(f"{name} has {nbytes} of {file.size} bytes")
    _refuse(source, wrong)


def _refuse(source: Path, wrong: list[str]) -> None:
    if wrong:
        raise CommandError(f"the backup {source} is damaged: {'; '.join(wrong)}")


def _copy_all(source: Path, made: Manifest, beside: Path) -> None:
    """Copy all files, and write the witnesses that belong to them."""
    wrong = []
    (beside / FOLDER).mkdir(mode=0o700)
    for name, file in made.files.items():
        to = beside / name
        to.parent.mkdir(mode=0o700, exist_ok=True)
        with (source / name).open("rb") as old, open(to, "wb", opener=private) as new:
            if _copied(old, new) != file:
                wrong.append(f"{name} differs from the manifest")
    _refuse(source, wrong)
    identity.store(beside, Identity(made.node, tuple(made.epochs)))
    for name, commits in made.commits.items():
        witness = Witness(beside, name, made.node)
        try:
            witness.record(commits, commits)
        finally:
            witness.close()
    sync_directories(*(path for path in (beside, *beside.rglob("*")) if path.is_dir()))


def _copied(old: BinaryIO, new: BinaryIO) -> File:
    """Copy a file to the disk, and return size and SHA-256 of the copied bytes."""
    nbytes, sha256 = 0, hashlib.sha256()
    while piece := old.read(PIECE):
        nbytes += len(piece)
        sha256.update(piece)
        new.write(piece)
    new.flush()
    os.fsync(new.fileno())
    return File(nbytes, sha256.hexdigest())


def _check_copy(source: Path, beside: Path) -> None:
    """Raise CommandError if a node would not start on the copy."""
    standing = Standing(beside)
    if standing.complaints:
        path, reason, _ = standing.complaints[0]
        raise CommandError(f"the backup {source} cannot be used: {path.relative_to(beside)}: {reason}")


def _exchange(beside: Path, data: Path) -> list[str]:
    """Exchange the files, in an order that never leaves old and new stores together; the new witnesses come last."""
    old = [path for path in (data / name for name in OLD) if path.exists()]
    lines = [f"{path} is now {set_aside(path)}" for path in old if path.name != WITNESSES]
    for name in NEW:
        if (beside / name).exists():
            (beside / name).rename(data / name)
    sync_directories(data)
    lines += [f"{path} is now {set_aside(path)}" for path in old if path.name == WITNESSES]
    (beside / WITNESSES).rename(data / WITNESSES)
    sync_directories(data)
    return lines
