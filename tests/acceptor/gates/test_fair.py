"""Fair division of the room in a full queue: equal shares, weights, and no starvation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from acceptor.gates.permissions import Access
from acceptor.gates.rights import InternalRights
from acceptor.gates.rounds import RECENT_SECONDS
from penstock.control.passwords import hashed
from tests.outcomes import jain
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

pytestmark = pytest.mark.long

STOP, RESUME = 1024, 512
FILLER = 255
"""The producer that has filled the queue before the others come."""


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(flow={"parking_bytes": 1 << 26}) as node:
        yield node


def flood(client: Client, who: int, count: int, key: str = "q", nbytes: int = 0) -> None:
    """Publish messages that name their producer."""
    for _ in range(count):
        client.publish(1, bytes([who]) + bytes(nbytes), routing_key=key, exchange="x")


def served(node: Node, reader: Client, rounds: int, every: int) -> Counter[int]:
    """Read `every` messages in each round; return the bytes received of each producer."""
    found: Counter[int] = Counter()
    reader.events[1].clear()
    for _ in range(rounds):
        for _ in range(every):
            reader.send("basic.get", 1, queue="q", no_ack=True)
        node.settle(rechecks=1)
    for event in reader.events[1]:
        if event.name == "basic.get-ok":
            found[event.body[0]] += len(event.body)
    return found


def begin(node: Node, producers: Sequence[tuple[int, int, str]], count: int, **arguments: Any) -> list[Client]:
    """Declare a queue with marks; return producers (who, bytes of a message, key) that each sent `count` messages."""
    node.declare("q", **{"x-flow-stop-count": STOP, "x-flow-resume-count": RESUME, **arguments})
    node.bind("x", "q")
    flood(open_channel(node), FILLER, STOP + 200)
    node.settle()
    clients = []
    for who, nbytes, key in producers:
        clients.append(open_channel(node))
        flood(clients[-1], who, count, key, nbytes)
    node.settle()
    return clients


def policy(node: Node, apply_to: str, **definition: Any) -> None:
    node.policy(apply_to, "", {key.replace("_", "-"): value for key, value in definition.items()}, apply_to)


def test_equal_producers_get_equal_shares(node: Node) -> None:
    begin(node, [(who, 0, "q") for who in range(40)], 400)
    reader = open_channel(node)
    served(node, reader, 3, STOP)
    found = served(node, reader, 6, STOP)
    del found[FILLER]
    assert len(found) == 40 and jain(found.values()) > 0.95


def test_by_bytes_where_the_limit_is_in_bytes(node: Node) -> None:
    """A producer whose messages are a hundred times as large gets as many bytes, not as many messages."""
    marks = {
        "x-flow-stop-count": 0,
        "x-flow-resume-count": 0,
        "x-flow-stop-size": 1 << 20,
        "x-flow-resume-size": 1 << 19,
    }
    begin(node, [(0, 50_000, "q"), (1, 500, "q"), (2, 500, "q")], 300, **marks)
    for who, client in enumerate((open_channel(node), open_channel(node)), 1):
        flood(client, who, 6000, nbytes=500)
    node.settle()
    reader = open_channel(node)
    while (depth := node.state("q").depth) and len(served(node, reader, 1, depth)) < 3:
        pass
    found = Counter[int]()
    for _ in range(8):
        found += served(node, reader, 1, node.state("q").depth // 2)
    assert jain(found.values()) > 0.9


def test_ten_channels_with_one_key_get_as_much_as_one_with_another(node: Node) -> None:
    policy(node, "queues", fair_by="key")
    begin(node, [(99, 0, "alone"), *((who, 0, "crowd") for who in range(10))], 2500)
    reader = open_channel(node)
    served(node, reader, 3, STOP)
    found = served(node, reader, 6, 400)
    alone = found.pop(99)
    assert 0.4 < alone / (alone + found.total()) < 0.6
    assert len(found) == 10 and jain(found.values()) > 0.85


@pytest.mark.parametrize(("weight", "part"), [(1, 1 / 2), (3, 3 / 4)])
def test_users_and_their_weights(node: Node, weight: int, part: float) -> None:
    policy(node, "queues", fair_by="user")
    node.policy("w", "^ann$", {"weight": weight}, "users")
    ann = user(node, "ann")
    begin(node, [], 0)
    clients = [open_channel(node) for _ in range(6)]
    clients[0].connection.channels[1].access = ann
    for who, client in enumerate(clients):
        flood(client, who, 5000 if who == 0 else 1200)
    node.settle()
    reader = open_channel(node)
    served(node, reader, 2, STOP)
    found = served(node, reader, 8, 500)
    del found[FILLER]
    assert found[0] / found.total() == pytest.approx(part, abs=0.05)
    assert len(found) == 6


def user(node: Node, name: str) -> Access:
    node.router.command("user_add", name=name, password_hash=hashed("secret"), tags=[])
    node.router.command("permission_set", user=name, vhost="/", configure=".*", write=".*", read=".*")
    node.publish_changes()
    core = node.core(0)
    return core.services.permissions.access(InternalRights(core.topology.users, name), "/")


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {
            "x-flow-stop-count": 0,
            "x-flow-resume-count": 0,
            "x-flow-stop-size": 1 << 20,
            "x-flow-resume-size": 1 << 19,
        },
    ],
    ids=["count", "bytes"],
)
def test_equal_producers_get_the_same_though_most_are_at_one_acceptor(marks: dict[str, int]) -> None:
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        node.declare("q", **{"x-flow-stop-count": STOP, "x-flow-resume-count": RESUME, **marks})
        node.bind("x", "q")
        nbytes = 1023 if marks else 0
        flood(open_channel(node), FILLER, STOP + 200, nbytes=nbytes)
        node.settle()
        for who in range(20):
            flood(open_channel(node, acceptor=who % 5 > 0), who, 800, nbytes=nbytes)
        node.settle()
        reader = open_channel(node)
        served(node, reader, 3, STOP)
        found = served(node, reader, 6, STOP)
        del found[FILLER]
        few = sum(found[who] for who in range(0, 20, 5)) / 4
        assert len(found) == 20 and 0.8 < few * 20 / found.total() < 1.25
        state = node.state("q").saturation
        count, size = state.marks.overshoot_bound(2)
        assert state.over_count <= count and state.over_bytes <= size + 2 * (nbytes + 1)


def test_who_waits_elsewhere_no_more_takes_nothing_from_others() -> None:
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        node.declare("q", **{"x-flow-stop-count": STOP, "x-flow-resume-count": RESUME})
        node.bind("x", "q")
        flood(open_channel(node, acceptor=1), FILLER, STOP + 200)
        node.settle()
        crowd = [open_channel(node, acceptor=1) for _ in range(8)]
        flood(open_channel(node), 1, 200)
        for client in crowd:
            flood(client, 2, 200)
        node.settle(rechecks=1)
        queue_gate = node.core(0).gates.queue_gates[node.queue("q").queue_id]
        assert (queue_gate.weights.own, queue_gate.weights.most) == (1, 9)
        node.kill_acceptor(1)
        node.settle(rechecks=1)
        assert (queue_gate.weights.own, queue_gate.weights.most) == (1, 1)
        node.kill_shard(0)
        node.settle(rechecks=1)
        assert (queue_gate.weights.own, queue_gate.weights.most) == (0, 0)
        node.start_shard(0)
        node.settle(rechecks=2)
        served(node, open_channel(node), 2, STOP)
        node.now += RECENT_SECONDS
        node.settle(rechecks=2)
        assert (queue_gate.weights.own, queue_gate.weights.most, queue_gate.weights.total) == (0, 0, 0)
        assert not node.core(0).gates.parts.reported


def test_what_is_no_longer_waiting_is_forgotten(node: Node) -> None:
    clients = begin(node, [(who, 0, "q") for who in range(5)], 100)
    line = node.core(0).gates.queue_gates[node.queue("q").queue_id].waiting
    assert len(line) == line.weight == 6
    for client in clients:
        client.lose()
    node.settle()
    reader = open_channel(node)
    served(node, reader, 4, STOP)
    assert not line and line.weight == 0


def test_the_peak_after_a_resume_stays_within_the_bound_of_the_first_stop(node: Node) -> None:
    begin(node, [(who, 0, "q") for who in range(100)], 300)
    reader = open_channel(node)
    bound = STOP + STOP // 16
    peaks = []
    for _ in range(20):
        peaks.append(node.state("q").depth)
        served(node, reader, 1, STOP - RESUME + 70)
    assert max(peaks) <= bound and min(peaks[:-1]) > RESUME
