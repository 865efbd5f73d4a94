"""Checks of permissions: texts, and decisions that hold no longer than their basis."""

from __future__ import annotations

import pytest

from acceptor.gates import permissions
from acceptor.gates.permissions import Access, Permissions
from acceptor.gates.rights import InternalRights, Kind
from penstock.amqp.errors import AMQPError
from router.model.topology import Topology
from router.model.users import Right


@pytest.fixture
def topology() -> Topology:
    return Topology(
        1,
        [
            ["vhost", "/"],
            ["user", "bob", "", []],
            ["permission", "bob", "/", "^c", "^w", "^r"],
            ["topic_permission", "bob", "/", "wt", "^a", "^b"],
        ],
    )


@pytest.fixture
def access(topology: Topology) -> Access:
    return Permissions().access(InternalRights(topology.users, "bob"), "/")


def refusal(access: Access, right: Right, kind: Kind, name: str) -> str | None:
    try:
        access.check(right, kind, name)
    except AMQPError as error:
        return f"{error.code}{'!' * error.hard} {error.reply_text}"
    return None


def test_texts(access: Access) -> None:
    assert refusal(access, "read", "queue", "r") is None
    assert refusal(access, "read", "queue", "q") == (
        "403 ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'bob'"
    )
    assert refusal(access, "configure", "exchange", "r") == (
        "403 ACCESS_REFUSED - configure access to exchange 'r' in vhost '/' refused for user 'bob'"
    )


def test_the_default_exchange_has_a_name_here(access: Access, topology: Topology) -> None:
    assert refusal(access, "write", "exchange", "") == (
        "403 ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'bob'"
    )
    topology.apply(["permission", "bob", "/", "", "^amq\\.default$", ""])
    assert refusal(access, "write", "exchange", "") is None


def test_a_line_end_does_not_hide_a_name(access: Access) -> None:
    """The router drops line ends from names: "r" after one is allowed, and a "q" before one is not hidden."""
    assert refusal(access, "read", "queue", "\nr") is None
    assert refusal(access, "read", "queue", "q\nr") == (
        "403 ACCESS_REFUSED - read access to queue 'qr' in vhost '/' refused for user 'bob'"
    )


def test_any_right_is_enough_to_ask(access: Access) -> None:
    for name in ("c", "w", "r"):
        access.check_any("queue", name)
    with pytest.raises(AMQPError) as refused:
        access.check_any("queue", "q")
    assert refused.value.reply_text == "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'bob'"


def test_decisions_follow_the_permissions(access: Access, topology: Topology) -> None:
    assert refusal(access, "write", "queue", "w") is None
    topology.apply(["permission", "bob", "/", "", "", ""])
    assert refusal(access, "write", "queue", "w") is not None
    topology.apply(["permission", "bob", "/", "", "w", ""])
    assert refusal(access, "write", "queue", "w") is None
    topology.apply(["permission_gone", "bob", "/"])
    assert refusal(access, "write", "queue", "w") is not None


def test_topics(access: Access, topology: Topology) -> None:
    topology.apply(["exchange", "/", "wt", "topic", True, False, False, {}, None, None])
    topology.apply(["exchange", "/", "wd", "direct", True, False, False, {}, None, None])
    topic, direct = topology.exchange("/", "wt"), topology.exchange("/", "wd")
    access.check_topic("write", topic, "a.b")
    access.check_topic("write", direct, "z")
    access.check_topic("write", None, "z")
    with pytest.raises(AMQPError) as refused:
        access.check_topic("read", topic, "a.b")
    assert refused.value.reply_text == (
        "ACCESS_REFUSED - read access to topic 'a.b' in exchange 'wt' in vhost '/' refused for user 'bob'"
    )


def test_memory_is_bounded(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "DECISIONS_MAX", 10)
    for i in range(100):
        assert refusal(access, "read", "queue", f"r{i}") is None
    assert len(access._decided) <= 10


def test_accesses_are_shared_and_let_go(topology: Topology) -> None:
    known = Permissions()
    bob, eve = (InternalRights(topology.users, name) for name in ("bob", "eve"))
    access = known.access(bob, "/")
    assert known.access(InternalRights(topology.users, "bob"), "/") is access
    assert known.access(eve, "/") is not access
    assert bob.may_open("/") and not bob.may_open("v") and not eve.may_open("/")
    del access
    assert (bob, "/") not in known._accesses
