"""Snapshots of several stores at one moment, whoever writes meanwhile."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ops.errors import CommandError
from ops.store import cut as cutting
from ops.store.cut import _snapshots, cut
from ops.store.topology import reading
from router.storage.store import FILE_NAME as TOPOLOGY
from tests.ops.store.making import made
from tests.ops.store.test_recognition import run

STORES = 3


class World:
    """Stores with counts of commits, and a topology; any of them may commit at each access to a store."""

    def __init__(self, data: Path, chance: Callable[[], int]) -> None:
        """`chance` returns what commits next: the number of a store, `STORES` for the topology, or more for none."""
        self._chance = chance
        self._writer = sqlite3.connect(data / TOPOLOGY, isolation_level=None)
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._writer.execute("CREATE TABLE commits (number)")
        self._writer.execute("INSERT INTO commits VALUES (0)")
        self.commits = [0] * (STORES + 1)
        self.moments = {tuple(self.commits)}
        self.environments = [
            SimpleNamespace(
                begin=lambda store=store, **_: self._begin(store), info=lambda store=store: self._info(store)
            )
            for store in range(STORES)
        ]

    def _begin(self, store: int) -> Any:
        self.move()
        commits = self.commits[store]
        return SimpleNamespace(id=lambda: commits, abort=self.move)

    def _info(self, store: int) -> dict[str, int]:
        self.move()
        return {"last_txnid": self.commits[store]}

    def move(self) -> None:
        who = self._chance()
        if who <= STORES:
            self.commits[who] += 1
            if who == STORES:
                self._writer.execute("UPDATE commits SET number = number + 1")
            self.moments.add(tuple(self.commits))

    def close(self) -> None:
        self._writer.close()


@pytest.mark.parametrize("seed", range(30))
def test_all_are_of_one_moment(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with closing(World(tmp_path, lambda: chance.randrange(20))) as world:
        for _ in range(10):
            with closing(reading(tmp_path)) as database, closing(reading(tmp_path)) as watch:
                txns = _snapshots(database, watch, world.environments, [tmp_path] * STORES, time.monotonic() + 60)
                world.move()
                assert txns is not None
                (of_topology,) = database.execute("SELECT number FROM commits").fetchone()
                assert (*(txn.id() for txn in txns), of_topology) in world.moments


def test_where_there_is_no_such_moment_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, 11)
    monkeypatch.setattr(cutting, "PATIENCE", 0.0)
    with pytest.raises(CommandError, match=r"no common moment of all stores"), cut(tmp_path, live=False):
        pass


def test_of_a_store_that_comes_meanwhile_there_is_a_snapshot_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, 11, shards=1)
    snapshots = cutting._snapshots

    def after_another_came(*given: Any) -> Any:
        monkeypatch.setattr(cutting, "_snapshots", snapshots)
        txns = snapshots(*given)
        made(tmp_path, 1)
        return txns

    monkeypatch.setattr(cutting, "_snapshots", after_another_came)
    with cut(tmp_path, live=False) as found:
        assert [store.facts(shard)["shard"] for shard, store in found.stores.items()] == [0, 1]
