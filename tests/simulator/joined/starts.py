"""Starts and deaths of a joined node's acceptors and shards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from acceptor.clients.connection_state import ConnectionState
from acceptor.clients.spool import Spool
from acceptor.core import AcceptorCore
from shard.core import ShardCore
from shard.queue.copying import remove_all
from shard.queue.saturation import Stop
from shard.recovered import Recovered
from shard.store.journal import Journal
from shard.store.store import Store
from tests.simulator.joined.processes import Acceptor, Shard
from tests.simulator.joined.under_router import UnderRouter

STORE_BYTES = 64 * 1024 * 1024


class Starts(UnderRouter):
    """A node whose processes start and die."""

    new_shard: type[Shard] = Shard
    """Makes an incarnation of a shard."""

    def start_shard(self, index: int, earlier: Mapping[int, Stop] | None = None) -> None:
        """Start a shard. `earlier`: stops not over when an earlier epoch of the node ended, by queue id."""
        assert self.shards[index] is None
        self.absent.discard(index)
        self.incarnations["shard", index] += 1
        incarnation = self.incarnations["shard", index]
        process = self.shard_process(index, incarnation)
        process.core.flow.earlier.update(earlier or {})
        self.load(process)
        process.has_begun()
        self.shards[index] = process
        self.expected[index] = incarnation
        self.introduce_shard(index, process)

    def introduce_shard(self, index: int, process: Shard) -> None:
        """Have a new shard meet all others, and them it."""
        self.show_processes()
        for peer, running in self.running_shards():
            self.meet_peer(process, peer, running.incarnation)
            self.meet_peer(running, index, process.incarnation)
        self.announce("started", "shard", index, process.incarnation)

    def meet_peer(self, process: Shard, peer: int, incarnation: int) -> None:
        """Have a shard meet an incarnation of another."""
        index = process.core.state.index
        if peer == index:
            return
        self.lose_peer(process, peer, incarnation - 1)
        if process.known.meet(peer, incarnation):
            self.across[index, peer].clear()
            process.core.peers[peer].started()

    def lose_peer(self, process: Shard, peer: int, incarnation: int) -> None:
        """Have a shard learn of the death of another."""
        if process.known.lose(peer, incarnation):
            process.core.peers[peer].died()

    def announce(self, event: str, role: str, index: int, incarnation: int) -> None:
        """Have acceptors and shards receive an event of the supervisor."""
        if role == "shard":
            for _, acceptor in self.running_acceptors():
                acceptor.events.append((event, index, incarnation))
        for _, shard in self.running_shards():
            shard.events.append((event, role, index, incarnation))

    def shard_process(self, index: int, incarnation: int) -> Shard:
        """Return an incarnation of a shard, with the contents of its store if there is one."""
        directory = self.stored / str(index)
        directory.mkdir(parents=True, exist_ok=True)
        if not self.stores:
            core = ShardCore(index, self.gauges, self.settings, self.microseconds(), incarnation)
            store = None
        else:
            store = self.open_store(index, directory)
            journal = Journal(store.read)
            recovered = Recovered(store, journal)
            core = ShardCore(
                index, self.gauges, self.settings, self.microseconds(), store.starts, journal, recovered
            )  # fmt: skip
            core.recover_links(store.links())
        core.state.incarnation = incarnation
        core.doing.begins(incarnation)
        remove_all(directory)
        core.await_acceptors()
        return self.new_shard(core, incarnation, store, self.stored, self.settings)

    def open_store(self, index: int, directory: Path) -> Store:
        """Open the store of a shard."""
        return Store(directory, STORE_BYTES, durable=False, epoch=1)

    def kill_shard(self, index: int, arriving: int = 1 << 30, written: bool = True, noticed: bool = True) -> Shard:
        """Kill a shard; each acceptor still receives `arriving` of its turns. Return the incarnation that ended.

        `written`: the commit that was handed over reaches the store. `noticed`: the router hears of it at once.
        """
        process = self.shards[index]
        assert process is not None
        self.shards[index] = None
        del self.followers[process.identity]
        process.end(written)
        self.cut_lines(index, arriving)
        self.bury("shard", index, process.incarnation, noticed)
        return process

    def cut_lines(self, shard: int, arriving: int = 1 << 30) -> None:
        """Drop all turns to a shard that has died, and all but `arriving` of its turns to each acceptor."""
        self.expected.pop(shard, None)
        for peer in range(self.places):
            self.across[shard, peer].clear()
            self.across[peer, shard].clear()
        for acceptor in range(len(self.acceptors)):
            self.up[acceptor, shard].clear()
            self.last_words[acceptor, shard].clear()
            line = self.down[shard, acceptor]
            while len(line) > arriving:
                line.pop()

    def bury(self, role: str, index: int, incarnation: int, noticed: bool = True) -> None:
        """Have all processes learn of a death; the router only if it is `noticed`."""
        self.show_processes()
        if role == "shard":
            for _, peer in self.running_shards():
                self.lose_peer(peer, index, incarnation)
        self.announce("died", role, index, incarnation)
        if noticed:
            self.announce_death()

    def remove_shard(self, index: int) -> None:
        """End a shard for good."""
        process = self.shards[index]
        assert process is not None
        self.absent.add(index)
        self.kill_shard(index)
        self.announce("gone", "shard", index, process.incarnation)

    def start_acceptor(self, seat: int) -> None:
        """Start an acceptor in a seat."""
        assert self.acceptors[seat] is None
        index = self.index_of(seat)
        self.incarnations["acceptor", index] += 1
        process = self.acceptor_process(seat, self.incarnations["acceptor", index])
        self.load(process)
        self.acceptors[seat] = process
        self.introduce_acceptor(process)

    def introduce_acceptor(self, process: Acceptor) -> None:
        """Have a new acceptor meet all shards."""
        self.show_processes()
        for shard, running in self.running_shards():
            self.meet_shard(process, shard, running.incarnation)

    def meet_shard(self, process: Acceptor, shard: int, incarnation: int) -> None:
        """Have an acceptor meet an incarnation of a shard."""
        self.lose_shard(process, shard, incarnation - 1)
        if process.known.meet(shard, incarnation):
            self.down[shard, process.seat].clear()
            process.core.shard_started(shard)

    def lose_shard(self, process: Acceptor, shard: int, incarnation: int) -> None:
        """Have an acceptor learn of the death of a shard."""
        if process.known.lose(shard, incarnation):
            process.core.shard_died(shard)

    def acceptor_process(self, seat: int, incarnation: int) -> Acceptor:
        """Return an incarnation of the acceptor that has a seat."""
        core = AcceptorCore(self.index_of(seat), incarnation, self.gauges, self.settings, "penstock@here")
        core.state.now = self.now
        core.state.flush = self.flush
        core.state.record = self.record
        if self.spools:
            flow = self.settings.flow
            core.state.spool = Spool(self.settings.data, flow.parked_memory, flow.spool_limit)
        return Acceptor(core, seat, self.gauges.shards)

    def kill_acceptor(self, seat: int) -> None:
        """Kill the acceptor in a seat; its turns in flight still arrive."""
        process = self.acceptors[seat]
        assert process is not None
        self.acceptors[seat] = None
        del self.followers[process.identity]
        for client in [client for client in self.clients.values() if client.acceptor == seat]:
            client.socket.closed = True
            del self.clients[client.connection]
        for shard in range(self.places):
            self.down[shard, seat].clear()
            self.last_words[seat, shard] += self.up[seat, shard]
            self.up[seat, shard].clear()
        self.strayed[seat].clear()
        self.bury("acceptor", self.index_of(seat), process.incarnation)

    def flush(self, connection: ConnectionState) -> None:
        """Write a connection's output to its client."""
        chunks = connection.output.pop_chunks()
        client = self.clients.get(connection)
        if client is not None:
            connection.last_sent = self.now
            client.take_bytes(chunks)
