"""`penstock store compact`: replaces the file of a store by a copy without its free pages."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ops.errors import CommandError
from ops.store.apart import apart
from ops.store.opened import opened
from penstock.files.directories import sync_directories
from shard.contents.errors import StoreError
from shard.store.checkpoint import Checkpoint
from shard.store.environment import FILE_NAME
from shard.store.stored import DATABASES

BESIDE = "compacting"


@dataclass(frozen=True, slots=True)
class Gain:
    """The size of a store's file in bytes, before and after."""

    shard: int
    path: str
    before: int
    after: int


def compact(path: Path, shard: int) -> Gain:
    """Shrink the file of a store as far as its contents allow. CommandError if that fails; it is then unchanged."""
    beside = path / BESIDE
    try:
        shutil.rmtree(beside, ignore_errors=True)  # of a run that was cut short
        beside.mkdir(mode=0o700)
        try:
            return apart(f"the store {path}", partial(_compact, path, beside, shard))
        finally:
            with suppress(OSError):
                shutil.rmtree(beside)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None


def _compact(path: Path, beside: Path, shard: int) -> Gain:
    file, copy = path / FILE_NAME, beside / FILE_NAME
    before = file.stat().st_size
    with opened(path, shard) as store:
        entries = {name: store.entries(name) for name in DATABASES}
        store.env.copy(str(beside), compact=True)
    with opened(beside, shard) as store:
        if {name: store.entries(name) for name in DATABASES} != entries:
            raise StoreError(path, "its copy differs from it: run `penstock store check`")
    with copy.open("rb") as written:
        os.fsync(written.fileno())
    copy.chmod(0o600)
    Checkpoint(path).dismiss()
    copy.replace(file)
    sync_directories(path)
    return Gain(shard, str(path), before, file.stat().st_size)
