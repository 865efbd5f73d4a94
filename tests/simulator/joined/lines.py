"""One step of each line between a joined node's processes, and the ends of their turns."""

from __future__ import annotations

from typing import Any

from acceptor.links.outgoing import SETTLING_SECONDS
from penstock import bus
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations_cy import Operation, Operations
from tests.simulator.joined.processes import Acceptor
from tests.simulator.joined.running import Frames
from tests.simulator.joined.starts import Starts


class Lines(Starts):
    """A node whose messages move one by one."""

    def finish(self, index: int) -> bool:
        """End an acceptor's turn; return whether it had anything to send."""
        process = self.acceptors[index]
        if process is None:
            return False
        turns = process.core.finish_turn()
        self.send(index, process, turns)
        routes = bool(process.core.gates.routing.waiting)
        process.core.gates.routing.serve()
        waits = process.core.waits()
        if waits:
            process.core.state.now = self.now = self.now + SETTLING_SECONDS
        said = bool(turns or waits or routes or process.core.state.router_requests or process.core.state.dirty)
        self.write_out(process)
        return said

    def send(self, index: int, process: Acceptor, turns: list[tuple[int, Frames]]) -> None:
        """Put an acceptor's turns in line for the shards that it is connected to."""
        for shard, frames in turns:
            if process.known.met(shard) == self.expected.get(shard):
                self.up[index, shard].append((process.identity, [bytes(frame) for frame in frames]))

    def write_out(self, process: Acceptor) -> None:
        """Send an acceptor's requests to the router, and its output to its clients."""
        self.carry_out(process)
        dirty, process.core.state.dirty = process.core.state.dirty, {}
        for connection in dirty:
            self.flush(connection)

    def finish_shard(self, index: int) -> bool:
        """End a shard's turn; return whether it had anything to send."""
        process = self.shards[index]
        if process is None:
            return False
        turns = process.core.finish_turn(self.microseconds())
        process.turn_has_ended(turns)
        process.read_ahead()
        process.carrier.begin()
        for identity, frames in turns:
            for acceptor, running in self.running_acceptors():
                if running.identity == identity and running.known.met(index) == process.incarnation:
                    self.down[index, acceptor].append([bytes(frame) for frame in frames])
            for peer, shard in self.running_shards():
                if identity == b"shard.%d.%d" % (peer, shard.incarnation):
                    self.report(index, peer, unpacked(frames, to_acceptor.OPERATIONS)[0])
        crossing = process.core.peers.close_turns(process.core.state.version)
        for peer, frames in crossing:
            if process.known.met(peer) == self.expected.get(peer):
                self.across[index, peer].append((process.identity, [bytes(frame) for frame in frames]))
        said = bool(
            turns or crossing or process.core.state.router_requests or process.core.next_wake() <= self.microseconds()
        )
        self.carry_out(process)
        return said

    def report(self, index: int, peer: int, turn: int) -> None:
        """Report to another shard that its turns up to this one are safe at a shard."""
        self.shard(peer).peers[index].made_safe(turn)

    def commit_shard(self, index: int) -> bool:
        """Have a shard hand over or write a commit; return whether there was one. The end of a turn reports it."""
        process = self.shards[index]
        return process is not None and process.commit()

    def send_up(self, acceptor: int, shard: int, last: bool = False) -> bool:
        """Deliver the next turn of an acceptor, or of a dead one (`last`), to a shard; return whether there was one."""
        process, line = self.shards[shard], (self.last_words if last else self.up)[acceptor, shard]
        if process is None or not line:
            return False
        identity, frames = line.popleft()
        turn, version, last_report, operations, parts = unpacked(frames, to_shard.OPERATIONS)
        process.core.state.now = self.microseconds()
        process.core.receive(identity, turn, version, last_report, operations, parts)
        process.was_sent(identity, turn, operations, parts)
        self.gauges.pair_add_taken(self.index_of(acceptor), shard, sum(map(len, frames)))
        return True

    def send_across(self, shard: int, peer: int) -> bool:
        """Deliver the next turn of a shard to another; return whether there was one."""
        process, line = self.shards[peer], self.across[shard, peer]
        if process is None or not line:
            return False
        identity, frames = line.popleft()
        process.core.state.now = self.microseconds()
        turn, version, last_report, operations, parts = unpacked(frames, to_shard.OPERATIONS)
        process.core.receive(identity, turn, version, last_report, operations, parts)
        if turn != bus.HELLO:
            process.was_sent_across(identity, turn, operations)
        return True

    def send_down(self, shard: int, acceptor: int, flow: str = "keep") -> bool:
        """Deliver the next turn of a shard to an acceptor; its broadcasts may be lost, late or repeated (`flow`)."""
        process, line = self.acceptors[acceptor], self.down[shard, acceptor]
        if process is None or not line:
            return False
        turn, _, _, operations, parts = unpacked(line.popleft(), to_acceptor.OPERATIONS)
        broadcasts = [operation for operation in operations if isinstance(operation, to_acceptor.Flow)]
        if flow in ("late", "again"):
            self.strayed[acceptor] += broadcasts
        if flow in ("late", "lost"):
            operations = [operation for operation in operations if not isinstance(operation, to_acceptor.Flow)]
        process.core.state.now = self.now
        process.core.receive(shard, turn, operations, parts)
        return True

    def stray(self, acceptor: int) -> None:
        """Deliver the first late broadcast, if there is any."""
        if self.strayed[acceptor]:
            operation = self.strayed[acceptor].pop(0)
            self.core(acceptor).gates.on_broadcast(operation.queue, operation.epoch)

    def meet(self, acceptor: int) -> bool:
        """Inform an acceptor of the next start, death or end of a shard."""
        process = self.acceptors[acceptor]
        if process is None or not process.events:
            return False
        event, shard, incarnation = process.events.popleft()
        if event == "died":
            self.lose_shard(process, shard, incarnation)
        elif event == "gone":
            process.core.shard_gone(shard)
        else:
            self.meet_shard(process, shard, incarnation)
        return True

    def mourn(self, shard: int) -> bool:
        """Inform a shard of the next death of an acceptor, or the start, death or end of another shard."""
        process = self.shards[shard]
        if process is None or not process.events:
            return False
        process.core.state.now = self.microseconds()
        event, role, index, incarnation = process.events.popleft()
        if event == "died":
            process.core.died(role, index, incarnation)
            if role == "shard":
                self.lose_peer(process, index, incarnation)
        elif event == "gone":
            process.core.peers[index].end()
        elif role == "shard":
            self.meet_peer(process, index, incarnation)
        return True

    def recheck(self, acceptor: int) -> None:
        """Run an acceptor's rechecks."""
        core = self.core(acceptor)
        core.state.now = self.now
        core.recheck()

    def meter(self, acceptor: int) -> None:
        """Have an acceptor check the gates that open with time."""
        process = self.acceptors[acceptor]
        if process is not None:
            process.core.state.now = self.now
            process.core.gates.metered.serve()


def unpacked(frames: Frames, receives: Operations) -> tuple[int, int, int, list[Operation], list[Any]]:
    """Return turn, version, last report received, operations and parts of a multipart to a receiver."""
    turn, version, last_report, operations, parts, apart = bus.read_head(frames[0], receives)
    following = iter(frames[1:])
    assert apart == len(frames) - 1
    return turn, version, last_report, operations, [next(following) if part is None else part for part in parts]
