"""Shards that are added and removed: the effects of commands, refusals, and the consequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.control.control import Refusal
from penstock.limits.watermarks import FlowDefaults
from penstock.memory.gauges import DEAD, READY, UNSTARTED
from penstock.memory.gauges import STARTING as BEGINNING
from router.authority.authority import Authority
from router.authority.ledger import Step
from router.commands.registry import execute
from router.model.placement import place
from router.model.records import SERVING, STARTING, Shard
from router.storage.recovery import recover
from router.storage.store import Store, StoreError, known_shards
from tests.router.making import Asked, StandingTime


class Changed(Asked):
    """An authority over two shards with four places, and the requests to its supervisor."""

    def __init__(self) -> None:
        super().__init__(2)
        self.shards = self.authority.placing
        self.shards.places = 4
        self.states = {0: READY, 1: READY}
        self.held = {0: (0, 0), 1: (0, 0)}
        self.asked: list[tuple[int, bool]] = []
        self.shards.state_of = lambda shard: self.states.get(shard, UNSTARTED)
        self.shards.bytes_of = lambda shard: self.held.get(shard, (0, 0))
        self.shards.ask = lambda shard, there: self.asked.append((shard, there))

    def command(self, name: str, **arguments: Any) -> Any:
        return execute(self.administration(), name, arguments)

    def refusal(self, name: str, **arguments: Any) -> str:
        with pytest.raises(Refusal) as refused:
            self.command(name, **arguments)
        return str(refused.value)

    def listed(self) -> dict[int, str]:
        return {each["shard"]: each["state"] for each in self.command("shard_list")}

    def new_steps(self) -> list[Step]:
        return self.authority.ledger.take_steps()

    def homes(self, count: int, stem: str = "q") -> set[int]:
        return {self.done("queue_declare", name=f"{stem}{n}", durable=True)["shard"] for n in range(count)}

    def gone(self, shard: int) -> None:
        """End a shard that is leaving."""
        while not self.asked:
            self.shards.advance()
        self.states[shard] = UNSTARTED
        self.shards.advance()


@pytest.fixture
def asked() -> Changed:
    return Changed()


def test_until_a_command_changes_them_nothing_is_stored(asked: Changed) -> None:
    assert asked.listed() == {0: "serving", 1: "serving"}
    assert not [step for step in asked.new_steps() if step.change[0] == "shard"]
    asked.command("shard_drain", shard=0)
    assert [(step.change, step.durable) for step in asked.new_steps()] == [
        (["shard", 0, "serving"], True),
        (["shard", 1, "serving"], True),
        (["shard", 0, "draining"], True),
    ]


def test_a_new_shard_takes_queues_once_it_serves(asked: Changed) -> None:
    before = asked.homes(30)
    assert asked.command("shard_add") == 2
    assert asked.homes(30, "r") == before == {0, 1}
    asked.shards.advance()
    asked.states[2] = BEGINNING
    asked.shards.advance()
    assert (asked.listed()[2], asked.asked) == ("starting", [(2, True)])
    asked.states[2] = READY
    asked.shards.advance()
    assert asked.listed()[2] == "serving"
    assert asked.homes(30, "s") == {0, 1, 2}
    queue = asked.topology.queue("/", "q0")
    assert queue
    assert asked.homes(30) == before  # existing queues stay where they are
    assert place("/", "q0", range(2), {}) == queue.shard


def test_there_are_only_so_many_places(asked: Changed) -> None:
    assert [asked.command("shard_add") for _ in range(2)] == [2, 3]
    assert "4 places for shards, all are taken" in asked.refusal("shard_add")


def test_nothing_is_placed_or_moved_to_a_shard_that_drains(asked: Changed) -> None:
    results: list[dict[str, Any]] = []
    asked.authority.moves.incarnation_of = lambda shard: 1
    asked.homes(30)
    asked.command("shard_drain", shard=1)
    asked.command("shard_drain", shard=1)
    assert asked.homes(30, "r") == {0}
    asked.authority.moves.start("/", "r0", 1, None, None, results.append)
    for ended, result in asked.authority.moves.take_answers():
        ended(result)
    assert [(result["result"], result["reason"]) for result in results] == [
        ("refused", "shard 1 is draining: it takes no queues")
    ]
    assert asked.refusal("shard_drain", shard=0) == "shard 0 is the only one that takes queues"
    asked.command("shard_undrain", shard=1)
    asked.command("shard_undrain", shard=1)
    assert asked.homes(30, "s") == {0, 1}


def test_a_shard_is_removed_when_it_has_nothing(asked: Changed) -> None:
    asked.homes(30)
    assert "shard 1 takes queues: `penstock shard drain 1` first" in asked.refusal("shard_remove", shard=1)
    asked.command("shard_drain", shard=1)
    count = len([queue for queue in asked.topology.queues() if queue.shard == 1])
    assert asked.refusal("shard_remove", shard=1) == f"shard 1 has {count} queues"
    for queue in [queue for queue in asked.topology.queues() if queue.shard == 1]:
        asked.done("queue_delete", queue_id=queue.queue_id)
    asked.held[1] = (7, 20)
    assert asked.refusal("shard_remove", shard=1) == "shard 1 still has 7 bytes in memory, 20 in its store"
    asked.held[1] = (0, 0)
    asked.states[1] = DEAD
    assert "the contents of its store are not known" in asked.refusal("shard_remove", shard=1)
    asked.states[1] = READY
    asked.command("shard_remove", shard=1)
    asked.command("shard_remove", shard=1)
    assert "shard 1 is leaving" in asked.refusal("shard_undrain", shard=1)
    assert "shard 1 is leaving" in asked.refusal("shard_drain", shard=1)
    asked.gone(1)
    assert (asked.listed(), set(asked.asked)) == ({0: "serving"}, {(1, False)})
    for command in ("shard_remove", "shard_drain", "shard_undrain"):
        assert asked.refusal(command, shard=1) == "there is no shard 1"


def test_what_was_placed_on_a_removed_shard_is_placed_by_the_hash(asked: Changed) -> None:
    asked.done("queue_place", name="mine", shard=1)
    asked.command("shard_drain", shard=1)
    asked.command("shard_remove", shard=1)
    asked.gone(1)
    assert asked.topology.placements == {}
    assert asked.command("shard_add") == 1  # the lowest free number
    asked.states[1] = READY
    asked.shards.advance()
    assert asked.listed() == {0: "serving", 1: "serving"}


def test_a_shard_that_never_served_is_taken_back(asked: Changed) -> None:
    asked.command("shard_add")
    asked.states[2] = DEAD
    assert "shard 2 is starting" in asked.refusal("shard_drain", shard=2)
    asked.command("shard_remove", shard=2)
    asked.gone(2)
    assert asked.listed() == {0: "serving", 1: "serving"}


def test_another_incarnation_of_the_router_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "topology.sqlite"
    assert known_shards(path) == ()
    store = Store(path, epoch=1)
    ledger = recover(store.load(), range(2), 6, 50, FlowDefaults())
    placing = Authority(ledger, range(2), FlowDefaults(), b"k", StandingTime().clock).placing
    placing.places = 6
    assert placing.add() == 2
    store.commit(ledger.take_steps(), 1, 0)
    store.close()
    assert known_shards(path) == (0, 1, 2)
    store = Store(path, epoch=2)
    ledger = recover(store.load(), range(9), 6, 50, FlowDefaults())
    again = Authority(ledger, range(9), FlowDefaults(), b"k", StandingTime().clock).placing
    assert list(again.topology.shards.values()) == [Shard(0, SERVING), Shard(1, SERVING), Shard(2, STARTING)]
    again.advance()
    assert again.serving == [0, 1, 2]
    again.drain(0)
    again.remove(0)
    again.state_of = lambda shard: UNSTARTED
    again.advance()
    store.commit(again.ledger.take_steps(), 2, 0)
    store.close()
    assert known_shards(path) == (1, 2)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "topology.sqlite"
    path.write_bytes(b"none of ours" * 100)
    with pytest.raises(StoreError, match="cannot read"):
        known_shards(path)
