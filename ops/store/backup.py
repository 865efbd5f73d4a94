"""`penstock store backup`: copies all stores of a node, as they were at one moment, into a directory of their own.

The node continues meanwhile. Space that it frees in the file of a store is not reused until that store is copied.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import lmdb

from ops.errors import CommandError
from ops.store import manifest
from ops.store.apart import apart
from ops.store.check import Findings
from ops.store.check_all import check_all
from ops.store.cut import Cut, cut
from ops.store.manifest import Manifest
from ops.store.opened import FOLDER, Opened, forget_reader, store_paths
from ops.store.topology import copy_topology
from penstock import __version__
from penstock.files import kept_clock
from penstock.files.directories import sync_directories
from penstock.files.witness import TOPOLOGY, shard_name
from penstock.node.clock import wall_us
from router.storage.store import FILE_NAME as TOPOLOGY_FILE
from router.storage.store import Facts, facts_of
from router.storage.store import StoreError as TopologyError
from shard.store.environment import reason_of, translated
from shard.store.stored import DATABASES

UNFINISHED = ".unfinished"


class Backup(NamedTuple):
    """The manifest of a backup, and the damage found in it, which the stores had before."""

    manifest: Manifest
    found: list[Findings]
    problems: list[str]


def backup(data: Path, new: Path, live: bool) -> Backup:
    """Back up a data directory; `live` means that its node runs. CommandError if that fails; nothing of the backup is
    then left.
    """
    beside = new.with_name(new.name + UNFINISHED)
    try:
        if new.exists():
            raise CommandError(f"{new} exists already")
        beside.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise CommandError(f"{beside} exists, of a backup that was cut short or still runs: delete it") from None
    except OSError as error:
        raise CommandError(f"cannot write {beside}: {error.strerror}") from None
    try:
        return _backup(data, new, beside, live)
    except OSError as error:
        raise CommandError(f"cannot write {error.filename or beside}: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if live:
            for _, path in store_paths(data):
                with suppress(CommandError):  # it only removes the entry of a killed reader
                    apart(f"the store {path}", partial(forget_reader, path))


def _backup(data: Path, new: Path, beside: Path, live: bool) -> Backup:
    made = apart(f"a store in {data}", partial(_copy, data, beside, live))
    found, problems = check_all(beside, live=False)
    made.problems = len(problems) + sum(findings.problems for findings in found)
    manifest.store(beside, made)
    sync_directories(*(path for path in (beside, *beside.rglob("*")) if path.is_dir()))
    beside.rename(new)
    sync_directories(new.parent)
    for findings in found:
        findings.path = findings.path.replace(str(beside), str(new))
        findings.first_problems = [text.replace(str(beside), str(new)) for text in findings.first_problems]
    return Backup(made, found, [text.replace(str(beside), str(new)) for text in problems])


def _copy(data: Path, to: Path, live: bool) -> Manifest:
    try:
        with cut(data, live) as all_stores:
            taken = wall_us()
            found = {shard: _facts(shard, store) for shard, store in all_stores.stores.items()}
            _check_room(all_stores, to)
            copy_topology(all_stores.topology, to / TOPOLOGY_FILE)
            all_stores.release_topology()
            _copy_clock(data, to)
            (to / FOLDER).mkdir(mode=0o700)
            for shard, store in all_stores.stores.items():
                _copy_store(store, to / FOLDER / str(shard))
                all_stores.release[shard]()
        topology = facts_of(to / TOPOLOGY_FILE)
    except (sqlite3.Error, TopologyError) as error:
        raise CommandError(f"{data / TOPOLOGY_FILE}: {error}") from None
    if topology is None or topology.node is None:
        raise CommandError(f"{data / TOPOLOGY_FILE} is of no node yet: start the node once")
    return _described(to, taken, topology.node, topology, found)


def _facts(shard: int, store: Opened) -> dict[str, int]:
    with translated(store.path):
        return store.facts(shard)


def _described(to: Path, taken: int, node: int, topology: Facts, found: dict[int, dict[str, int]]) -> Manifest:
    """Return the manifest. CommandError if the stores are not of one node; a store that no run has opened since
    witnesses exist has no node on record.
    """
    known = {shard: facts for shard, facts in found.items() if "node" in facts}
    for shard, facts in known.items():
        if facts["node"] != node:
            raise CommandError(f"shard {shard} has the store of another node: it cannot be backed up")
    commits = {TOPOLOGY: topology.commits, **{shard_name(shard): facts["commits"] for shard, facts in known.items()}}
    epochs = sorted({topology.epoch, *(facts.get("epoch", 0) for facts in found.values())})
    files = {str(path.relative_to(to)): _finished(path) for path in sorted(to.rglob("*")) if path.is_file()}
    return Manifest(__version__, node, epochs, taken, commits, 0, files)


def _copy_store(store: Opened, to: Path) -> None:
    to.mkdir(mode=0o700)
    try:
        store.env.copy(str(to), compact=True, txn=store.txn)
    except lmdb.Error as error:
        raise CommandError(f"cannot copy {store.path}: {reason_of(error)}") from None


def _check_room(all_stores: Cut, to: Path) -> None:
    """Raise CommandError if the disk lacks room: it may be the node's own."""
    needed = sum(map(_nbytes, all_stores.stores.values()))
    free = shutil.disk_usage(to).free
    if needed > free:
        raise CommandError(f"{to.parent} has room for {free:,} bytes, the backup takes {needed:,}")


def _nbytes(store: Opened) -> int:
    """Return the approximate size of a store's copy."""
    stats = [store.txn.stat(store.dbs[name]) for name in DATABASES if name in store.dbs]
    return sum(
        (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]) * int(stat["psize"]) for stat in stats
    )


def _copy_clock(data: Path, to: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.copyfile(data / kept_clock.FILE_NAME, to / kept_clock.FILE_NAME)


def _finished(path: Path) -> manifest.File:
    path.chmod(0o600)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return manifest.digest(path)
