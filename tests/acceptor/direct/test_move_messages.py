"""Messages moved for users of the HTTP interface."""

from __future__ import annotations

import pytest

from acceptor.direct import move_messages
from acceptor.direct.steps import FULL, WAIT_SECONDS
from tests.acceptor.direct.steps import begin, bodies, depth, done, fill, get, limit, method, pass_time, publish
from tests.simulator.joined.node import Node

ORDERS = {"queue": "orders", "reason": "rejected", "exchange": "events", "routing-keys": ["order.new"]}
LETTER = {"x-death": [ORDERS], "x-first-death-queue": "orders", "x-first-death-reason": "rejected"}


def move(node: Node, target: str = "", queue: str = "dead", count: int = 100, user: str = "guest") -> dict[str, object]:
    answer: dict[str, object] = done(node, "move", user=user, queue=queue, target=target, count=count)
    return answer


def bury(node: Node, *bodies: bytes, **headers: object) -> None:
    """Publish dead letters to a queue."""
    node.declare("dead")
    node.settle()
    for body in bodies:
        assert publish(node, "dead", body, headers={**LETTER, **headers}) == {"result": {"routed": True}}


def test_messages_move_in_their_order(node: Node) -> None:
    bury(node, b"1", b"2", b"3")
    node.declare("target")
    node.settle()
    assert move(node, "target", count=2) == {"result": {"moved": 2, "kept": 0, "remaining": 1, "stopped": None}}
    assert bodies(get(node, "target")) == [b"1", b"2"]
    assert depth(node, "dead") == (1, 0)
    assert move(node, "target") == {"result": {"moved": 1, "kept": 0, "remaining": 0, "stopped": None}}
    assert move(node, "target") == {"result": {"moved": 0, "kept": 0, "remaining": 0, "stopped": None}}


def test_dead_letters_go_back_to_their_exchange(node: Node) -> None:
    bury(node, b"1", b"2")
    node.declare("orders")
    node.settle()
    assert method(node, "exchange_declare", exchange="events", type="topic") == {"result": {}}
    assert method(node, "queue_bind", queue="orders", exchange="events", routing_key="order.*") == {"result": {}}
    assert move(node) == {"result": {"moved": 2, "kept": 0, "remaining": 0, "stopped": None}}
    first, *_ = get(node, "orders")["result"]
    assert (first["exchange"], first["routing_key"]) == ("events", "order.new")


def test_without_their_exchange_they_go_to_the_queue_of_their_death(node: Node) -> None:
    bury(node, b"1")
    node.declare("orders")
    node.settle()
    assert move(node)["result"] == {"moved": 1, "kept": 0, "remaining": 0, "stopped": None}
    assert bodies(get(node, "orders")) == [b"1"]


def test_what_cannot_go_stays_in_its_place(node: Node) -> None:
    """A message that is no dead letter, and one whose queue is gone too."""
    node.declare("dead")
    node.declare("orders")
    node.settle()
    publish(node, "dead", b"plain")
    bury(node, b"1")
    publish(node, "dead", b"lost", headers={"x-first-death-queue": "nowhere"})
    bury(node, b"2")
    assert move(node)["result"] == {"moved": 2, "kept": 2, "remaining": 2, "stopped": None}
    assert bodies(get(node, "dead")) == [b"plain", b"lost"]
    assert bodies(get(node, "orders")) == [b"1", b"2"]


def test_the_search_is_bounded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_messages, "KEPT_MOST", 2)
    node.declare("dead")
    node.settle()
    for number in range(5):
        publish(node, "dead", b"%d" % number)
    assert move(node)["result"] == {"moved": 0, "kept": 2, "remaining": 5, "stopped": None}
    assert depth(node, "dead") == (5, 0)


def test_a_full_queue_stops_the_move_and_nothing_is_lost_or_doubled(node: Node) -> None:
    fill(node)
    bury(node, b"1", b"2")
    answers = begin(node, "move", queue="dead", target="q", count=10)
    node.settle()
    assert not answers, "it waits for room"
    pass_time(node, WAIT_SECONDS)
    (answer,) = answers
    assert answer["result"]["moved"] == 0 and answer["result"]["remaining"] == 2
    assert "queue 'q'" in answer["result"]["stopped"]
    before = depth(node, "q")[0]
    assert depth(node, "dead") == (2, 0)
    assert len(get(node, "q", count=100, ack_mode="ack_requeue_false")["result"]) == before
    pass_time(node, 1)
    assert depth(node, "q") == (0, 0), "nothing that waited comes later"
    assert move(node, "q")["result"]["moved"] == 2


def test_room_that_comes_while_it_waits_is_used(node: Node) -> None:
    fill(node)
    bury(node, b"1")
    answers = begin(node, "move", queue="dead", target="q", count=10)
    node.settle()
    get(node, "q", count=100, ack_mode="ack_requeue_false")
    node.settle(rechecks=1)
    assert answers == [{"result": {"moved": 1, "kept": 0, "remaining": 0, "stopped": None}}]


def test_a_queue_that_refuses_stops_the_move(node: Node) -> None:
    node.declare("q", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    bury(node, b"1", b"2", b"3")
    found = move(node, "q")["result"]
    assert found == {"moved": 1, "kept": 0, "remaining": 2, "stopped": FULL}
    assert depth(node, "dead") == (2, 0)


@pytest.mark.parametrize(("target", "kind"), [("dead", "invalid"), ("nowhere", "not_found")])
def test_a_bad_target_is_refused(node: Node, target: str, kind: str) -> None:
    bury(node, b"1")
    assert move(node, target)["kind"] == kind
    assert depth(node, "dead") == (1, 0)


def test_a_source_that_is_missing_is_refused(node: Node) -> None:
    assert move(node, queue="nowhere")["kind"] == "not_found"


@pytest.mark.parametrize("rights", ["^$", "^dead$"])
def test_the_users_rights_count(node: Node, rights: str) -> None:
    """A user needs to read the source, and to write to the exchange."""
    bury(node, b"1")
    node.declare("target")
    limit(node, "ann", rights)
    answer = move(node, "target", user="ann")
    assert "access" in str(answer["error"]), answer
    assert depth(node, "dead") == (1, 0)
