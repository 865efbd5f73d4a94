"""The joined node: clients connect, and everything settles."""

from __future__ import annotations

from itertools import cycle
from typing import Any, Self

from acceptor.clients.channel_state import ChannelState
from acceptor.clients.parked import ParkedRun
from router.model.records import PRECOPYING
from router.model.topology import Queue
from tests.raw import CAPABILITIES
from tests.simulator.joined.client import Client
from tests.simulator.joined.lines import Lines


class Node(Lines):
    """Acceptors and shards, the authority and the gauges, joined by lists, with clients.

    With `spools`, acceptors keep parked contents on disk. With `stores`, shards write persistent messages: as soon as
    possible or, if `commits` is unset, on request (`commit_shard`).
    """

    def __init__(
        self, acceptors: int = 1, shards: int = 1, flow: dict[str, Any] | None = None, stores: bool = False,
        spools: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(acceptors, shards, flow, stores, spools, **options)
        self.publish_changes()
        for index in range(shards):
            self.start_shard(index)
        for index in range(acceptors):
            self.start_acceptor(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for shard in filter(None, self.shards):
            shard.end(written=False)
        self.router.store.close()
        self.exits.close()

    def connect(
        self, acceptor: int = 0, properties: dict[str, Any] | None = None,
        capabilities: dict[str, bool] | None = None, heartbeat: int = 0, vhost: str = "/", user: str = "guest",
    ) -> Client:  # fmt: skip
        """Return a logged-in client; all users have the same password."""
        client = self.visit(acceptor, properties, capabilities, user)
        client.log_in(vhost, heartbeat)
        self.settle()
        client.take("connection.open-ok")
        client.events[0].clear()
        return client

    def visit(
        self, acceptor: int = 0, properties: dict[str, Any] | None = None, capabilities: dict[str, bool] | None = None,
        user: str = "guest",
    ) -> Client:  # fmt: skip
        """Return a client that has sent nothing yet."""
        client = Client(self, acceptor, properties or {}, CAPABILITIES if capabilities is None else capabilities, user)
        self.clients[client.connection] = client
        return client

    def step(self, slow: int | None = None) -> bool:
        """Move everything in flight by one step, except a slow acceptor's turns; return whether anything moved."""
        moved = False
        for index, acceptor in self.running_acceptors():
            while self.meet(index) or self.change(acceptor) or self.reply(acceptor):
                moved = True
        for index, shard in self.running_shards():
            while self.mourn(index) or self.change(shard) or self.reply(shard):
                moved = True
        for client in list(self.clients.values()):
            while client.read():
                moved = True
                if client.deaf:  # the output caused by a read counts only once it is written
                    break
        for index, _ in self.running_acceptors():
            moved |= self.finish(index)
        for index, shard_index in [(a, s) for a in range(len(self.acceptors)) for s in range(len(self.shards))]:
            while index != slow and (self.send_up(index, shard_index, last=True) or self.send_up(index, shard_index)):
                moved = True
        for shard_index, peer in [(a, b) for a in range(len(self.shards)) for b in range(len(self.shards))]:
            while self.send_across(shard_index, peer):
                moved = True
        for index, _ in self.running_shards():
            moved |= self.finish_shard(index)
            while self.commits and self.commit_shard(index):
                moved = self.finish_shard(index) or True
        for index, shard_index in [(a, s) for a in range(len(self.acceptors)) for s in range(len(self.shards))]:
            while self.send_down(shard_index, index):
                moved = True
        return moved

    def begin_move(self, name: str, shard: int) -> list[dict[str, Any]]:
        """Move a queue up to its stop, of which nobody has heard; return the list that the result will be in."""
        results, id = self.move(name, shard), self.queue(name).queue_id
        for index, process in cycle(self.running_shards()):
            while self.change(process):
                pass
            self.finish_shard(index)
            while self.commit_shard(index):
                self.finish_shard(index)
            if self.router.topology.moves[id].phase != PRECOPYING:
                return results
            for peer in range(len(self.shards)):
                while self.send_across(index, peer):
                    pass
        raise AssertionError("there is no shard")

    def settle(self, rechecks: int = 0) -> None:
        """Take steps until nothing moves; then let time pass and recheck, `rechecks` times."""
        for _ in range(rechecks + 1):
            for _ in range(10_000):
                if not self.step():
                    break
            else:
                raise AssertionError("it never comes to rest")
            if rechecks:
                self.now += self.settings.flow.recheck_seconds
                for index, _ in self.running_acceptors():
                    self.recheck(index)


def parked(channel: ChannelState) -> list[tuple[bytes, bytes]]:
    """Return (address, body) of every publish that a channel has parked."""
    found = []
    for item in channel.inbox:
        if isinstance(item, ParkedRun):
            found += [(item.address, item.batch.record(item.first + i)[2]) for i in range(item.count)]
    return found


def open_channel(node: Node, acceptor: int = 0, number: int = 1, **options: Any) -> Client:
    """Return a client of an acceptor, with one open channel."""
    client = node.connect(acceptor, **options)
    client.call("channel.open", number)
    return client


def fill_beside(node: Node, queue: Queue, late: Client, client: Client) -> None:
    """Fill a queue from `client` while publishes of `late`, which another acceptor let through, are in flight; then
    deliver those.
    """
    late.read()
    node.finish(late.acceptor)
    assert node.core(late.acceptor).gates.queue_gates[queue.queue_id].in_flight
    for _ in range(500):
        client.read()
        node.finish(client.acceptor)
        node.send_up(client.acceptor, queue.shard)
        node.finish_shard(queue.shard)
        node.commit_shard(queue.shard)
        node.send_down(queue.shard, client.acceptor)
    node.settle(rechecks=3)
