"""Queues that move between joined cores, with each message in flight for its own time, and processes that die."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.shard.steps import drain
from tests.simulator.joined.node import Node, open_channel

pytestmark = pytest.mark.long

QUEUE = "q"
STEPS = 4000


class World:
    """A node, two clients that publish to a queue and two that consume from it, and the messages they have seen."""

    def __init__(self, node: Node, seed: object, **arguments: Any) -> None:
        self.node = node
        self.chance = random.Random(f"{seed}")
        node.declare(QUEUE, shard=0, durable=True, **arguments)
        self.publishers = [open_channel(node, acceptor) for acceptor in range(2)]
        self.consumers = [open_channel(node, acceptor) for acceptor in range(2)]
        self.sent = [0, 0]
        self.confirmed = [0, 0]
        self.seen: list[list[tuple[bytes, bool]]] = [[], []]
        self.acked: list[bytes] = []
        self.gone: set[int] = set()
        for publisher in self.publishers:
            publisher.call("confirm.select", 1)
        for consumer in self.consumers:
            consumer.call("basic.qos", 1, prefetch_count=4)
            consumer.call("basic.consume", 1, queue=QUEUE)

    # What clients do

    def publish(self) -> None:
        which = self.chance.randrange(2)
        if which in self.gone:
            return
        self.sent[which] += 1
        body = b"%d:%d" % (which, self.sent[which])
        self.publishers[which].publish(1, body, routing_key=QUEUE, delivery_mode=2)

    def consume(self) -> None:
        """Have one of the consumers receive its deliveries, and ack or requeue each."""
        which = self.chance.randrange(2)
        if which in self.gone:
            return
        client = self.consumers[which]
        while "basic.deliver" in client.names(1):
            event = client.take("basic.deliver", 1)
            self.seen[which].append((event.body, event.redelivered))
            if self.chance.random() < 0.1:
                client.send("basic.nack", 1, delivery_tag=event.delivery_tag, requeue=True)
            else:
                self.acked.append(event.body)
                client.send("basic.ack", 1, delivery_tag=event.delivery_tag)

    def note_confirms(self) -> None:
        for which, client in enumerate(self.publishers):
            while "basic.ack" in client.names(1):
                event = client.take("basic.ack", 1)
                self.confirmed[which] = max(self.confirmed[which], event.delivery_tag)
            assert "basic.nack" not in client.names(1)

    def lose_acceptor(self) -> None:
        """Kill the second acceptor and start it again; its clients do not come back."""
        self.gone.add(1)
        self.node.kill_acceptor(1)
        self.node.start_acceptor(1)

    # Messages in flight

    def steps(self) -> list[Callable[[], bool]]:
        node = self.node
        acceptors, shards = range(len(node.acceptors)), range(len(node.shards))
        found: list[Callable[[], bool]] = []
        for a in acceptors:
            incarnation = node.acceptors[a]
            assert incarnation is not None
            found += [lambda a=a: node.meet(a), lambda a=a: node.finish(a)]
            found += [
                lambda incarnation=incarnation: node.change(incarnation),
                lambda incarnation=incarnation: node.reply(incarnation),
            ]
            found += [lambda a=a, s=s: node.send_up(a, s) for s in shards]
            found += [lambda a=a, s=s: node.send_up(a, s, last=True) for s in shards]
            found += [lambda a=a, s=s: node.send_down(s, a) for s in shards]
        for s in shards:
            shard = node.shards[s]
            if shard is not None:
                found += [lambda s=s: node.mourn(s), lambda s=s: node.finish_shard(s)]
                found += [lambda shard=shard: node.change(shard), lambda shard=shard: node.reply(shard)]
                found += [lambda s=s: node.commit_shard(s)]
                found += [lambda s=s, p=p: node.send_across(s, p) for p in shards]
        found += [client.read for client in node.clients.values()]
        found.append(self.poll)
        return found

    def poll(self) -> bool:
        """Have the router notice the processes that have died."""
        self.node.handle_deaths()
        return True

    def step(self) -> None:
        """Take one random step; sometimes, publish and consume."""
        self.chance.choice(self.steps())()
        if self.chance.random() < 0.02:
            self.publish()
        if self.chance.random() < 0.05:
            self.consume()

    def run(self, results: list[dict[str, Any]]) -> None:
        for _ in range(STEPS):
            self.step()
            if results:
                return
        self.node.settle()
        assert results, "it does not come to an end"

    def end(self) -> None:
        """Have everything go on until no message is left."""
        for _ in range(200):
            self.node.settle()
            self.consume()
            self.note_confirms()
        self.node.settle()
        contents = self.node.state(QUEUE).contents
        assert (contents.ready, contents.unacked) == (0, 0)
        id = self.node.queue(QUEUE).queue_id
        assert [id in self.node.shard(shard).state.queues for shard in range(2)].count(True) == 1
        for which in set(range(2)) - self.gone:
            assert self.confirmed[which] == self.sent[which]

    def check(self, died: bool) -> None:
        """Check that nothing is lost, consumers see publishers in order, and nothing comes twice without a death."""
        confirmed = {b"%d:%d" % (which, number) for which in range(2) for number in range(1, self.confirmed[which] + 1)}
        assert confirmed <= set(self.acked)
        if not died:
            assert len(self.acked) == len(set(self.acked))
        for seen in self.seen:
            for which in (b"0", b"1"):
                fresh = [int(b[2:]) for b, redelivered in seen if b[:1] == which and not redelivered]
                assert fresh == sorted(fresh)
                if not died:
                    assert len(fresh) == len(set(fresh))


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 2}, {"qpid.flow_stop_count": 6}])
@pytest.mark.parametrize("seed", range(4))
def test_there_and_back(seed: int, arguments: dict[str, Any]) -> None:
    with Node(2, 2, stores=True) as node:
        world = World(node, seed, **arguments)
        for _ in range(20):
            world.publish()
        node.settle()
        for target in (1, 0, 1):
            results = node.move(QUEUE, target)
            world.run(results)
            assert results[0]["result"] == "moved", results
        world.end()
        world.check(died=False)


@pytest.mark.parametrize("who", ["old home", "new home", "both", "acceptor"])
@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 100))])
def test_somebody_dies(seed: int, who: str) -> None:
    """A process dies at any moment of a move, and comes back at any later one."""
    with Node(2, 2, stores=True) as node:
        world = World(node, f"{seed} {who}")
        for _ in range(20):
            world.publish()
        node.settle()
        results = node.move(QUEUE, 1)
        for _ in range(world.chance.randrange(1200)):
            world.step()
        if who == "acceptor":
            world.lose_acceptor()
        else:
            dead = {"old home": [0], "new home": [1], "both": [0, 1]}[who]
            for shard in dead:
                arriving, written, noticed = (
                    world.chance.randrange(3),
                    world.chance.random() < 0.5,
                    world.chance.random() < 0.5,
                )
                node.kill_shard(shard, arriving, written, noticed)
            for _ in range(world.chance.randrange(100)):
                world.step()
            for shard in dead:
                node.start_shard(shard)
        world.run(results)
        assert results[0]["result"] in ("moved", "rolled-back")
        world.end()
        world.check(died=True)
        again = node.move(QUEUE, 1 - node.queue(QUEUE).shard)
        world.publish()
        world.run(again)
        assert again[0]["result"] == "moved", again
        world.end()


def test_confirms_stay_withheld_while_a_full_queue_moves() -> None:
    """They are given when the queue has room again, at its new home."""
    with Node(1, 2, stores=True) as node:
        node.declare(QUEUE, durable=True, **{"qpid.flow_stop_count": 3, "qpid.flow_resume_count": 1})
        client = open_channel(node)
        client.call("confirm.select", 1)
        for number in range(6):
            client.publish(1, b"%d" % number, routing_key=QUEUE, delivery_mode=2)
        node.settle()
        for home in (1, 0):
            results = node.move(QUEUE, home)
            node.settle(2)
            assert results[0]["result"] == "moved"
            assert node.state(QUEUE).saturation.saturated
            assert client.names(1) == []
        assert len(drain(open_channel(node), QUEUE)) == 6
        assert max(event.delivery_tag for event in client.events[1]) == 6
