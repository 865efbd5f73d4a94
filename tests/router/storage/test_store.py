"""The store of the topology: everything comes back in the same epoch, and durable records in the next."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.authority.ledger import Step
from router.model.kinds import KINDS
from router.model.record_kind import Change
from router.model.records import Move
from router.model.topology import Topology
from router.storage import sums
from router.storage.store import APPLICATION_ID, MIGRATIONS, SPARE_SLOTS, SUMS_SINCE, Facts, Store, StoreError, facts_of
from tests.router.strategies import field_values

LIMITS = [10, None, "flow", 8, 7, 0, 0]
FEATURES = ["classic", 60000, None]
ODD = "n\udcff"  # bytes that are not UTF-8


def queue(name: str, queue_id: int, *, durable: bool, owner: str | None = None) -> Change:
    place = [queue_id, queue_id + 3, 1]
    return ["queue", "/", name, *place, durable, False, owner, {"x-max-length": 10}, LIMITS, FEATURES, ODD, "ops", ODD]


DURABLE: list[Change] = [
    ["shard", 1, "draining"],
    ["vhost", "/"],
    ["policy", "/", False, ODD, "^" + ODD, "queues", -3, {"max-length": 10, "overflow": "flow"}],
    ["policy", "/", True, "ops", ".*", "all", 2**31 - 1, {"max-length": 99}],
    ["exchange", "/", "", "direct", True, False, False, {}, None, None, None],
    [
        *("exchange", "/", "123", "topic", True, True, True),
        *({"alternate-exchange": "y", "b": b"\xff", "n": [None, 1.5]}, "ops", ODD, "bob"),
    ],
    queue("durable", 2, durable=True),
    ["binding", "/", "123", "queue", "durable", ODD, {"b": 1, "a": [True]}, ODD],
    ["placement", "/", "durable", 2],
    ["placement", "/", "other", 0],
    ["placement_version", 4],
    ["last_stop", 3],
    ["user", "bob", "$argon2id$", ["administrator"]],
    ["permission", "bob", "/", "", "^w", ".*"],
    ["topic_permission", "bob", "/", "amq.topic", "a", ODD],
    ["limits", "user", ODD, {"max-queues": 5}],
    ["stop", 1, "/", ODD, "a.#", "q", "bob", None, "ann", "why", 1.5, 2.5],
    ["hold_off", ODD, "::1", 3, 1.5, 2.5, 3.5, "why"],
    ["stop", 2, None, None, None, None, None, None, "ann", "", 1.5, None],
]
TRANSIENT: list[Change] = [
    ["exchange", "/", "x", "fanout", False, False, False, {}, None, None, "bob"],
    queue("transient", 3, durable=False),
    queue("exclusive", 4, durable=False, owner="0.1.1"),
    ["binding", "/", "123", "queue", "transient", "k", {}, None],
    ["binding", "/", "x", "exchange", "123", "", {}, "bob"],
    ["stop", 3, None, None, None, None, None, "0.1.1", "ann", "", 1.5, None],
    ["move", 2, 9, 1, 0, "homing", 1, 2, ODD, 1.5, 3, 2**40, 2**32 - 1, "rolled-back", "why", [2**50, 12, 345]],
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "topology.sqlite"


def store_all(path: Path, epoch: int = 1) -> None:
    store = Store(path, epoch)
    store.commit([Step(change, True) for change in DURABLE] + [Step(change, False) for change in TRANSIENT], 7, 4)
    store.close()


def loaded(path: Path, epoch: int) -> tuple[int, int, list[Change]]:
    store = Store(path, epoch)
    stored = store.load()
    store.close()
    return stored.version, stored.last_queue_id, stored.changes


def ordered(changes: list[Change]) -> list[str]:
    return sorted(map(repr, changes))


def test_same_epoch(path: Path) -> None:
    """A router that dies loses nothing."""
    store_all(path)
    version, last_queue_id, changes = loaded(path, 1)
    assert (version, last_queue_id) == (7, 4)
    assert ordered(changes) == ordered(DURABLE + TRANSIENT)


def test_a_move_comes_back_with_all_that_is_known_of_it(path: Path) -> None:
    move = Move(2, 9, 1, 0, "copying", 1, 2, None, 1.5, 3, 2**40, 2**32 - 1, stop=[2**50, 12, 345])
    store = Store(path, 1)
    store.commit([Step(move.change(), False)], 7, 4)
    store.close()
    assert [Move(*change[1:]) for change in loaded(path, 1)[2] if change[0] == "move"] == [move]


def test_next_epoch(path: Path) -> None:
    """After a restart of the node, transient records are gone, and slots, versions and ids go on."""
    store_all(path)
    version, last_queue_id, changes = loaded(path, 2)
    assert (version, last_queue_id) == (7, 4)
    assert ordered(changes) == ordered(DURABLE)


def test_a_slot_far_beyond_the_number_of_queues_is_given_up_in_the_next_epoch(path: Path) -> None:
    store_all(path)
    limit = 2 * sum(change[0] == "queue" for change in DURABLE) + SPARE_SLOTS
    store = Store(path, 1)
    below, beyond = (queue(name, number, durable=True) for name, number in (("below", 8), ("beyond", 9)))
    below[4], beyond[4] = limit + 3, limit + 4  # two queues more
    store.commit([Step(below, True), Step(beyond, True)], 8, 9)
    store.close()
    for epoch, expected in ((1, [limit + 3, limit + 4]), (2, [limit + 3, -1])):
        slots = {change[2]: change[4] for change in loaded(path, epoch)[2] if change[0] == "queue"}
        assert [slots["below"], slots["beyond"]] == expected


def test_order_makes_a_topology(path: Path) -> None:
    store_all(path)
    _, _, changes = loaded(path, 1)
    kinds = list(dict.fromkeys(change[0] for change in changes))
    topology = ["shard", "vhost", "policy", "exchange", "queue", "binding", "placement", "move"]
    accounts = ["user", "permission", "topic_permission", "limits"]
    assert kinds == [*topology, *accounts, "stop", "hold_off", "placement_version", "last_stop"]
    assert ordered(list(Topology(7, changes).changes())) == ordered(changes)
    assert [change[3] for change in changes if change[0] == "queue"] == [2, 3, 4]


def test_all_goes_again(path: Path) -> None:
    store_all(path)
    types = {record_type.record_kind.name: record_type for record_type in KINDS}
    gone = [types[kind](*fields).change_gone() for kind, *fields in reversed(DURABLE + TRANSIENT) if kind in types]
    store = Store(path, 1)
    store.commit([Step(change, True) for change in gone], 8, 4)
    store.close()
    assert loaded(path, 1) == (8, 4, [["placement_version", 4], ["last_stop", 3]])


def test_a_queue_may_be_stored_again(path: Path) -> None:
    """With another slot, shard or limits, after a restart."""
    store_all(path)
    moved = queue("durable", 2, durable=True)
    moved[4:6] = [9, 0]
    store = Store(path, 1)
    store.commit([Step(moved, True)], 8, 4)
    store.close()
    assert moved in loaded(path, 1)[2]
    assert len([change for change in loaded(path, 1)[2] if change[0] == "queue"]) == 3


def test_policies_and_exchanges_may_be_stored_again(path: Path) -> None:
    """Changed, or governed by another policy."""
    store_all(path)
    again: list[Change] = [
        ["policy", "/", True, "ops", "^a", "queues", 0, {"expires": 5}],
        ["exchange", "/", "", "direct", True, False, False, {}, "ops", None, None],
    ]
    store = Store(path, 1)
    store.commit([Step(change, True) for change in again], 8, 4)
    store.close()
    changes = loaded(path, 1)[2]
    assert all(change in changes for change in again) and len(changes) == len(DURABLE + TRANSIENT)


def test_name_key_is_the_epochs(path: Path) -> None:
    keys = []
    for epoch in (1, 1, 2):
        store = Store(path, epoch)
        keys.append(store.load().name_key)
        store.close()
    assert keys[0] == keys[1] != keys[2]
    assert len(keys[0]) == 32


def test_all_or_nothing(path: Path) -> None:
    """A transaction that fails leaves nothing behind, and does not hinder the next one."""
    store = Store(path, 1)
    with pytest.raises(StoreError, match="cannot write"):
        store.commit([Step(["vhost", "/"], True), Step(["vhost", "/"], True)], 1, 0)
    assert store.load().changes == []
    store.commit([Step(["vhost", "/"], True)], 1, 0)
    assert (store.load().version, store.load().changes) == (1, [["vhost", "/"]])
    store.close()


@pytest.mark.parametrize("instructions", [5, 6, 10, 20, 50, 80])
def test_a_commit_that_is_interrupted_may_be_tried_again(path: Path, instructions: int) -> None:
    store = Store(path, 1)
    store.commit([Step(["vhost", "a"], True)], 1, 0)
    store._database.set_progress_handler(lambda: 1, instructions)
    with pytest.raises(StoreError, match="interrupted"):
        store.commit([Step(["vhost", "b"], True)], 2, 0)
    store._database.set_progress_handler(None, 0)
    assert store.load().version == 1
    store.commit([Step(["vhost", "b"], True)], 2, 0)
    assert store.load().version == 2
    store.close()


def test_only_what_is_durable_waits_for_the_disk(path: Path) -> None:
    store = Store(path, 1)
    for durable, synchronous in ((False, 1), (True, 2), (False, 1)):
        store.commit([Step(["placement", "/", "q", 1], durable)], 1, 0)
        assert store._execute("PRAGMA synchronous").fetchone() == (synchronous,)
    assert store._execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=3), field_values, max_size=4), st.text(max_size=5), st.binary(max_size=5))
def test_any_arguments_and_keys(
    tmp_path_factory: pytest.TempPathFactory, arguments: dict[str, Any], key: str, data: bytes
) -> None:
    """A binding with any arguments and key comes back, and can be found and removed."""
    path = tmp_path_factory.mktemp("store") / "topology.sqlite"
    binding = ["/", "x", "queue", "q", key + data.decode("utf-8", "surrogateescape"), arguments, None]
    store = Store(path, 1)
    store.commit([Step(["binding", *binding], True)], 1, 0)
    (stored,) = store.load().changes
    assert repr(stored) == repr(["binding", *binding])
    store.commit([Step(["binding_gone", *stored[1:-1]], True)], 2, 0)
    assert store.load().changes == []
    store.close()


def test_what_a_node_begins_with_is_made_once(path: Path) -> None:
    """Also for data from before there were users."""
    store = Store(path, 1)
    assert not store.load().seeded
    store.commit([], 1, 0)
    assert store.load().seeded
    store.close()


def test_each_epoch_begins_with_what_is_stored_first_in_it(path: Path) -> None:
    for epoch in (1, 2):
        store = Store(path, epoch)
        assert not store.load().begun
        store.commit([], epoch, 0)
        assert store.load().begun
        store.close()


def test_only_the_owner_may_read_it(path: Path) -> None:
    """The file contains hashes of passwords."""
    path.parent.mkdir()
    path.touch(mode=0o644)
    store = Store(path, 1)
    store.commit([Step(["user", "bob", "", []], True)], 1, 0)
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    store.close()


def test_a_newer_format_is_refused(path: Path) -> None:
    store_all(path)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match=f"of format 99, this one knows up to {len(MIGRATIONS)}"):
        Store(path, 1)


def test_a_file_that_is_none_of_ours_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE precious (x)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not a topology of penstock"):
        Store(path, 1)
    assert path.read_bytes() == before
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store(path, 1)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot open"):
        Store(tmp_path / "file" / "topology.sqlite", 1)


def test_migration_from_every_format_there_was(path: Path) -> None:
    """Each migration leads from the format before it."""
    path.parent.mkdir()
    for known in range(len(MIGRATIONS)):
        path.unlink(missing_ok=True)
        database = sqlite3.connect(path)
        marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {known};" if known else ""
        database.executescript("".join(MIGRATIONS[:known]) + marks)
        if known >= SUMS_SINCE:
            sums.rebuild(database)
            database.commit()
        database.close()
        assert facts_of(path) == (Facts(None, 0, 0, ()) if known else None)
        store_all(path)
        assert ordered(loaded(path, 1)[2]) == ordered(DURABLE + TRANSIENT)


def test_after_an_error_the_log_begins_anew(path: Path, tmp_path: Path) -> None:
    """The log may never have reached the disk, and a hole in it would cost everything behind it."""
    store = Store(path, 1)
    exchange: Change = ["exchange", "/", "before", "fanout", False, False, False, {}, None, None, None]
    store.commit([Step(["vhost", "/"], True), Step(exchange, False)], 1, 0)
    (pages,) = store._execute("PRAGMA page_count").fetchone()
    store._execute(f"PRAGMA max_page_count = {pages}")
    large: Change = ["policy", "/", False, "p", "x" * 100_000, "queues", 0, {}]
    with pytest.raises(StoreError, match="full"):
        store.commit([Step(large, True)], 2, 0)
    store._execute("PRAGMA max_page_count = 1000000")
    store.commit([Step(large, True)], 2, 0)
    alone = tmp_path / "alone.sqlite"
    alone.write_bytes(path.read_bytes())  # without the log
    with sqlite3.connect(alone) as database:
        assert database.execute("SELECT name FROM exchanges").fetchall() == [("before",)]
        assert database.execute("SELECT name FROM policies").fetchall() == []
    store.close()
    assert [change[0] for change in loaded(path, 1)[2]] == ["vhost", "policy", "exchange"]


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE queues SET durable = 0", "queues"),
        ("UPDATE exchanges SET type = 'x'", "exchanges"),
        ("DELETE FROM bindings", "bindings"),
        ("INSERT INTO vhosts VALUES ('more')", "vhosts"),
        ("UPDATE facts SET value = 1 WHERE name = 'last_queue_id'", "facts"),
        ("DELETE FROM sums", "bindings"),
    ],
)
def test_what_was_not_written_by_the_router_is_found_out(path: Path, statement: str, table: str) -> None:
    store_all(path)
    assert facts_of(path)
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()
    for open_it in (lambda: Store(path, 1), lambda: facts_of(path)):
        with pytest.raises(StoreError, match=f"it is damaged: the {table} are not what was written"):
            open_it()
