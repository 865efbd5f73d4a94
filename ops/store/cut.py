"""All stores of a data directory as they were at one moment, while its node writes them.

Snapshots are begun in all stores, one after the other. If each is then still the newest state of its store, there was a
moment, after the last was begun, at which all of them were: they show what a node killed at that moment would find, and
contain all that shards and the router had agreed on by then. Otherwise they are begun again: stores commit every few
milliseconds, and beginning the snapshots takes a fraction of one.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ops.errors import CommandError
from ops.store.opened import Opened, open_environment, store_paths
from ops.store.topology import reading
from router.storage.store import FILE_NAME as TOPOLOGY
from shard.store.environment import translated

PATIENCE = 10.0
"""Seconds until the attempt is given up."""


@dataclass(slots=True)
class Cut:
    """The stores by shard, and the topology. Each snapshot stays open until it is released, or the cut ends."""

    topology: sqlite3.Connection
    stores: dict[int, Opened]
    release_topology: Callable[[], None]
    release: dict[int, Callable[[], None]]


@contextmanager
def cut(data: Path, live: bool) -> Iterator[Cut]:
    """Open all stores as they are at one moment. CommandError if there is no topology, or no such moment was found;
    StoreError or sqlite3.Error if a store cannot be read.
    """
    if not (data / TOPOLOGY).exists():
        raise CommandError(f"{data} is not the data directory of a node: it has no {TOPOLOGY}")
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        paths = store_paths(data)
        with ExitStack() as stack:
            held = [(shard, path, stack.enter_context(ExitStack())) for shard, path in paths]
            envs = [each.enter_context(open_environment(path, live)) for _, path, each in held]
            topology = stack.enter_context(ExitStack())
            database, watch = (topology.enter_context(closing(reading(data))) for _ in range(2))
            txns = _snapshots(database, watch, envs, [path for _, path in paths], until)
            if txns is None or store_paths(data) != paths:  # a shard was added or removed
                continue
            stores = {}
            for (shard, path, each), env, txn in zip(held, envs, txns, strict=True):
                each.callback(txn.abort)
                with translated(path):
                    stores[shard] = Opened(path, env, txn)
            yield Cut(database, stores, topology.close, {shard: each.close for shard, _, each in held})
            return
    raise CommandError(f"{data}: no common moment of all stores was found: try again")


def _snapshots(
    database: sqlite3.Connection, watch: sqlite3.Connection, envs: Sequence[Any], paths: Sequence[Path], until: float
) -> list[Any] | None:
    """Return a transaction of each environment, all of one moment, as that of `database`; None if none was found in
    time.
    """
    while time.monotonic() < until:
        version = _version(watch)
        database.execute("BEGIN")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()  # only a read begins the snapshot
        txns: list[Any] = []
        for env, path in zip(envs, paths, strict=True):
            with translated(path):
                txns.append(env.begin(buffers=True))
        newest = all(env.info()["last_txnid"] == txn.id() for env, txn in zip(envs, txns, strict=True))
        if newest and _version(watch) == version:
            return txns
        for txn in txns:
            txn.abort()
        database.execute("ROLLBACK")
    return None


def _version(watch: sqlite3.Connection) -> Any:
    """Return a number that changes when another connection commits (sqlite.org/pragma.html#pragma_data_version)."""
    return watch.execute("PRAGMA data_version").fetchone()
