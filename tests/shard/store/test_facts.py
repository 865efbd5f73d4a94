"""A store's facts about itself: read as written, and refused if the store must not be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shard.contents.errors import StoreError
from shard.store.environment import Environment
from shard.store.facts import facts_of, put_fact
from shard.store.stored import FORMAT, NUMBER

SHARD = 2


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    environment = Environment(tmp_path, ("facts",), 1 << 20, synced=False)
    yield environment
    environment.close()


def put(environment: Environment, **facts: int) -> None:
    def write(txn: Any) -> None:
        for name, number in facts.items():
            put_fact(txn, environment["facts"], name, number)

    environment.write(write)


def found(environment: Environment, shard: int = SHARD) -> dict[str, int]:
    facts: dict[str, int] = {}
    environment.write(lambda txn: facts.update(facts_of(environment.path, txn, environment["facts"], shard)))
    return facts


def test_a_new_store_has_no_facts(environment: Environment) -> None:
    assert found(environment) == {}


def test_facts_come_back(environment: Environment) -> None:
    facts = {"format": FORMAT, "shard": SHARD, "life": 7, "commits": (1 << 64) - 1}
    put(environment, **facts)
    assert found(environment) == facts
    put(environment, life=8)
    assert found(environment) == {**facts, "life": 8}


@pytest.mark.parametrize("format", [0, FORMAT + 1, 1 << 40])
def test_an_unknown_format_is_refused_before_anything_else_is_read(environment: Environment, format: int) -> None:
    put(environment, format=format)
    environment.write(lambda txn: txn.put(b"shard", b"as another version writes it", db=environment["facts"]))
    with pytest.raises(StoreError, match=f"it is of format {format}, this penstock knows format {FORMAT}$"):
        found(environment)


def test_the_store_of_another_shard_is_refused(environment: Environment) -> None:
    put(environment, format=FORMAT, shard=SHARD + 1)
    with pytest.raises(StoreError, match=f"it is the store of shard {SHARD + 1}$"):
        found(environment)
    assert found(environment, SHARD + 1)["shard"] == SHARD + 1


def test_facts_without_a_format_are_damaged(environment: Environment) -> None:
    put(environment, life=1)
    with pytest.raises(ValueError, match=r"^its format is not recorded$"):
        found(environment)


@pytest.mark.parametrize("change", [lambda value: value[:-1] + b"?", lambda value: value[:8], lambda value: b""])
def test_a_changed_fact_is_damaged(environment: Environment, change: Callable[[bytes], bytes]) -> None:
    """Without its checksum, a fact would pass in format 1 only."""
    put(environment, format=FORMAT, life=1)
    environment.write(lambda txn: txn.put(b"life", change(txn.get(b"life", db=environment["facts"])),
                                          db=environment["facts"]))  # fmt: skip
    with pytest.raises(ValueError, match=r"^a record of facts is damaged$"):
        found(environment)


def test_facts_of_format_1_have_no_checksums(environment: Environment) -> None:
    put(environment, format=1)
    environment.write(lambda txn: txn.put(b"life", NUMBER.pack(5), db=environment["facts"]))
    assert found(environment) == {"format": 1, "life": 5}
