"""A turn of the router: stored, then published, then answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from penstock.bus import pack, unpack
from penstock.control.control import Refusal
from penstock.limits.watermarks import FlowDefaults
from router.authority import vhosts
from router.authority.authority import Authority
from router.authority.ledger import Ledger
from router.authority.slots import Slots
from router.authority.vhosts import PREDECLARED
from router.core import RouterCore
from router.model.topology import Topology
from router.storage.recovery import recover
from router.storage.store import Store, StoreError
from tests.router.making import StandingTime, completed
from tests.router.strategies import field_values

ME = b"acceptor.0.1"


def make_core(path: Path, epoch: int = 1) -> RouterCore:
    store = Store(path, epoch)
    stored = store.load()
    ledger = recover(stored, range(2), 2, 50, FlowDefaults())
    core = RouterCore(Authority(ledger, range(2), FlowDefaults(), stored.name_key, StandingTime().clock), store)
    if not stored.seeded:
        core.seed()
    return core


@pytest.fixture
def core(tmp_path: Path) -> Iterator[RouterCore]:
    core = make_core(tmp_path / "topology.sqlite")
    core.finish_turn()
    yield core
    core.store.close()


def request(number: int, operation: str, **arguments: Any) -> bytes:
    return pack([number, operation, completed(operation, arguments) if operation != "snapshot" else arguments])


def replies(turn: Any) -> list[Any]:
    return [unpack(frame) for _, frame in turn.replies]


def test_a_bug_in_the_middle_of_a_change_is_for_the_process(core: RouterCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise half of the change would be stored, published and served."""
    add_exchange = Ledger.add_exchange

    def fails(self: Ledger, exchange: Any) -> None:
        add_exchange(self, exchange)
        raise KeyError("a bug")

    monkeypatch.setattr(Ledger, "add_exchange", fails)
    with pytest.raises(KeyError):
        core.receive(ME, request(1, "exchange_declare", name="x"))
    with pytest.raises(KeyError):
        core.command("vhost_add", {"name": "v"}, lambda answer: None)


def test_commands_that_change_nothing_are_not_in_the_log_unless_they_are_refused(core: RouterCore) -> None:
    with capture_logs() as lines:
        core.command("vhost_add", {"name": "v"}, lambda answer: None)
        core.command("rebalance_lease", {}, lambda answer: None)
        core.command("rebalance_lease", {"x": 1}, lambda answer: None)
    levels = [(line["command"], line["log_level"]) for line in lines if line["event"] == "command"]
    assert levels == [("vhost_add", "info"), ("rebalance_lease", "debug"), ("rebalance_lease", "info")]


def test_the_first_turn_makes_the_default_vhost(tmp_path: Path) -> None:
    core = make_core(tmp_path / "topology.sqlite")
    turn = core.finish_turn()
    assert turn.version == 1 and turn.published is not None
    version, changes = unpack(turn.published)
    assert (version, changes[0]) == (1, ["vhost", "/"])
    assert len(changes) == 1 + len(PREDECLARED) + 2
    assert changes[-2][:2] == ["user", "guest"] and changes[-1] == ["permission", "guest", "/", ".*", ".*", ".*"]
    core.store.close()
    again = make_core(tmp_path / "topology.sqlite", epoch=2)
    assert again.finish_turn().published is None
    assert again.version == 1
    again.store.close()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot read .*: No such file"),
        ("", "not contain one line"),
        ("\n", "not contain"),
        ("a\nb\n", "one line"),
    ],
)
def test_a_first_user_needs_a_password(core: RouterCore, tmp_path: Path, text: str | None, reason: str) -> None:
    file = tmp_path / "password"
    if text is not None:
        file.write_text(text)
    with pytest.raises(Refusal, match=reason):
        core.ensure_first_user("app", file, new=True)
    assert core.finish_turn().published is None


def test_one_version_and_one_transaction_a_turn(core: RouterCore) -> None:
    core.receive(ME, request(1, "queue_declare", name="a"))
    core.receive(ME, request(2, "snapshot", have=-1))
    core.receive(b"shard.1.1", request(1, "queue_declare", name="a", durable=True))
    core.receive(ME, request(3, "exchange_declare", name="x"))
    turn = core.finish_turn()
    assert [identity for identity, _ in turn.replies] == [ME, ME, b"shard.1.1", ME]
    declared, snapshot, refused, made = replies(turn)
    assert declared == [
        1,
        2,
        {"name": "a", "queue_id": 1, "slot": declared[2]["slot"], "shard": declared[2]["shard"]},
        None,
    ]
    assert refused[:3] == [1, 2, None] and refused[3][0] == 406
    assert made == [3, 2, None, None]
    assert turn.published is not None
    assert [change[0] for change in unpack(turn.published)[1]] == ["queue", "exchange"]
    # The snapshot was requested in mid-turn, and yet it is of the version that it names.
    assert snapshot[1] == 2
    assert ["exchange", "/", "x", "direct", False, False, False, {}, None, None, "guest"] in snapshot[2]["changes"]
    assert core.store.load().version == 2


def test_replicas_get_the_arguments_that_decide_where_messages_go(core: RouterCore) -> None:
    decisive = {"alternate-exchange": "amq.fanout", "hash-header": "h"}
    arguments = {**decisive, "unknown": "x"}
    core.receive(ME, request(1, "exchange_declare", name="x", type="x-consistent-hash", arguments=arguments))
    core.receive(ME, request(2, "snapshot", have=-1))
    turn = core.finish_turn()
    assert turn.published is not None
    _, snapshot = replies(turn)
    for changes in (unpack(turn.published)[1], snapshot[2]["changes"]):
        (made,) = (change for change in changes if change[:3] == ["exchange", "/", "x"])
        assert made[7] == decisive
    assert core.authority.topology.exchange("/", "x").arguments == arguments  # type: ignore[union-attr]


def test_nothing_changed(core: RouterCore) -> None:
    core.receive(ME, request(1, "queue_lookup", name="a"))
    turn = core.finish_turn()
    assert (turn.version, turn.published) == (1, None)
    assert replies(turn) == [[1, 1, None, [404, "no queue 'a' in vhost '/'"]]]
    assert core.finish_turn().replies == []


def test_what_is_stored_is_what_is_there(core: RouterCore) -> None:
    requests: list[tuple[str, dict[str, Any]]] = [
        ("queue_declare", {"name": "q", "durable": True}),
        ("queue_declare", {"name": "", "exclusive": True, "connection": "0.1.1"}),
        ("exchange_declare", {"name": "x", "type": "headers", "auto_delete": True}),
        ("queue_bind", {"queue": "q", "source": "x", "arguments": {"b": 1, "a": {"c": True}}}),
        ("queue_bind", {"queue": "q", "source": "amq.topic", "key": "k\udcff"}),
        ("queue_unbind", {"queue": "q", "source": "x", "arguments": {"a": {"c": True}, "b": 1}}),
    ]
    core.authority.placing.drain(1)  # from now on the shards are stored
    for number, (operation, arguments) in enumerate(requests):
        core.receive(ME, request(number, operation, **arguments))
        assert replies(core.finish_turn())[0][3] is None
        stored = core.store.load()
        replica = Topology(stored.version, stored.changes)
        assert sorted(map(repr, replica.changes())) == sorted(map(repr, core.authority.topology.changes()))


def test_changes_wait_for_a_disk_that_is_full(core: RouterCore) -> None:
    """Nothing is answered or published before it is stored; then everything is."""
    core.store._execute("PRAGMA max_page_count = 1")
    core.receive(ME, request(1, "queue_declare", name="n" * 200, durable=True, arguments={"a": "x" * 9000}))
    with pytest.raises(StoreError, match="full"):
        core.finish_turn()
    core.receive(ME, request(2, "queue_lookup", name="n" * 200))
    with pytest.raises(StoreError, match="full"):
        core.finish_turn()
    assert core.version == 1
    core.store._execute("PRAGMA max_page_count = 100000")
    turn = core.finish_turn()
    assert turn.version == 2 and turn.published is not None
    assert [reply[:2] for reply in replies(turn)] == [[1, 2], [2, 2]]
    assert core.store.load().version == 2


def test_an_acceptor_died(core: RouterCore) -> None:
    core.receive(ME, request(1, "queue_declare", name="q", exclusive=True, connection="0.1.1"))
    core.finish_turn()
    core.acceptor_died(0, 1)
    turn = core.finish_turn()
    assert turn.published is not None
    assert unpack(turn.published) == [3, [["queue_gone", "/", "q", 1]]]


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        pack([1, "snapshot", {}])[:-1],
        pack([1, "snapshot"]),
        pack(["1", "snapshot", {}]),
        pack({}),
        b"\x81\x90\x01",
    ],
)
def test_unreadable_frames_are_passed_over(core: RouterCore, frame: bytes) -> None:
    core.receive(ME, frame)
    assert core.finish_turn().replies == []


@given(st.binary(max_size=40) | st.builds(pack, st.lists(field_values, max_size=4)), st.binary(max_size=5))
def test_no_frame_can_break_it(frame: bytes, identity: bytes) -> None:
    ledger = Ledger(Topology(), Slots(range(1, 3), ()), 0)
    vhosts.add(ledger, "/")
    core = RouterCore(Authority(ledger, range(1), FlowDefaults(), b"k", StandingTime().clock), NoStore())
    core.receive(identity, frame)
    core.receive(ME, request(1, "queue_lookup", name="a"))
    assert replies(core.finish_turn())[-1][3] == [404, "no queue 'a' in vhost '/'"]


class NoStore(Store):
    """A store that writes nothing, for turns whose storing does not matter."""

    def __init__(self) -> None:
        pass

    def commit(self, *_: object) -> None:
        pass
