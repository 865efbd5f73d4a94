"""One step of each line between a joined node's processes, and the ends of their turns."""

from __future__ import annotations

from typing import Any

from acceptor.links.outgoing import SETTLING_SECONDS
from penstock import bus
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations_cy import Operation, Operations
from tests.simulator.joined.lives import Lives
from tests.simulator.joined.processes import Acceptor
from tests.simulator.joined.running import Frames


class Lines(Lives):
    """A node whose messages move one by one."""

    def finish(self, index: int) -> bool:
        """End an acceptor's turn; return whether it had anything to send."""
        life = self.acceptors[index]
        if life is None:
            return False
        turns = life.core.finish_turn()
        self.send(index, life, turns)
        routes = bool(life.core.gates.routing.waiting)
        life.core.gates.routing.serve()
        waits = life.core.waits()
        if waits:
            life.core.state.now = self.now = self.now + SETTLING_SECONDS
        said = bool(turns or waits or routes or life.core.state.router_requests or life.core.state.dirty)
        self.write_out(life)
        return said

    def send(self, index: int, life: Acceptor, turns: list[tuple[int, Frames]]) -> None:
        """Put an acceptor's turns in line for the shards that it is connected to."""
        for shard, frames in turns:
            if life.known.met(shard) == self.expected.get(shard):
                self.up[index, shard].append((life.identity, [bytes(frame) for frame in frames]))

    def write_out(self, life: Acceptor) -> None:
        """Send an acceptor's requests to the router, and its output to its clients."""
        self.carry_out(life)
        dirty, life.core.state.dirty = life.core.state.dirty, {}
        for connection in dirty:
            self.flush(connection)

    def finish_shard(self, index: int) -> bool:
        """End a shard's turn; return whether it had anything to send."""
        life = self.shards[index]
        if life is None:
            return False
        turns = life.core.finish_turn(self.microseconds())
        life.turn_has_ended(turns)
        life.read_ahead()
        life.carrier.begin()
        for identity, frames in turns:
            for acceptor, running in self.running_acceptors():
                if running.identity == identity and running.known.met(index) == life.incarnation:
                    self.down[index, acceptor].append([bytes(frame) for frame in frames])
            for peer, shard in self.running_shards():
                if identity == b"shard.%d.%d" % (peer, shard.incarnation):
                    self.report(index, peer, unpacked(frames, to_acceptor.OPERATIONS)[0])
        crossing = life.core.peers.close_turns(life.core.state.version)
        for peer, frames in crossing:
            if life.known.met(peer) == self.expected.get(peer):
                self.across[index, peer].append((life.identity, [bytes(frame) for frame in frames]))
        said = bool(
            turns or crossing or life.core.state.router_requests or life.core.next_wake() <= self.microseconds()
        )
        self.carry_out(life)
        return said

    def report(self, index: int, peer: int, turn: int) -> None:
        """Report to another shard that its turns up to this one are safe at a shard."""
        self.shard(peer).peers[index].made_safe(turn)

    def commit_shard(self, index: int) -> bool:
        """Have a shard hand over or write a commit; return whether there was one. The end of a turn reports it."""
        life = self.shards[index]
        return life is not None and life.commit()

    def send_up(self, acceptor: int, shard: int, last: bool = False) -> bool:
        """Deliver the next turn of an acceptor, or of a dead one (`last`), to a shard; return whether there was one."""
        life, line = self.shards[shard], (self.last_words if last else self.up)[acceptor, shard]
        if life is None or not line:
            return False
        identity, frames = line.popleft()
        turn, version, last_report, operations, parts = unpacked(frames, to_shard.OPERATIONS)
        life.core.state.now = self.microseconds()
        life.core.receive(identity, turn, version, last_report, operations, parts)
        life.was_sent(identity, turn, operations, parts)
        self.gauges.pair_add_taken(acceptor, shard, sum(map(len, frames)))
        return True

    def send_across(self, shard: int, peer: int) -> bool:
        """Deliver the next turn of a shard to another; return whether there was one."""
        life, line = self.shards[peer], self.across[shard, peer]
        if life is None or not line:
            return False
        identity, frames = line.popleft()
        life.core.state.now = self.microseconds()
        turn, version, last_report, operations, parts = unpacked(frames, to_shard.OPERATIONS)
        life.core.receive(identity, turn, version, last_report, operations, parts)
        if turn != bus.HELLO:
            life.was_sent_across(identity, turn, operations)
        return True

    def send_down(self, shard: int, acceptor: int, flow: str = "keep") -> bool:
        """Deliver the next turn of a shard to an acceptor; its broadcasts may be lost, late or repeated (`flow`)."""
        life, line = self.acceptors[acceptor], self.down[shard, acceptor]
        if life is None or not line:
            return False
        turn, _, _, operations, parts = unpacked(line.popleft(), to_acceptor.OPERATIONS)
        broadcasts = [operation for operation in operations if isinstance(operation, to_acceptor.Flow)]
        if flow in ("late", "again"):
            self.strayed[acceptor] += broadcasts
        if flow in ("late", "lost"):
            operations = [operation for operation in operations if not isinstance(operation, to_acceptor.Flow)]
        life.core.state.now = self.now
        life.core.receive(shard, turn, operations, parts)
        return True

    def stray(self, acceptor: int) -> None:
        """Deliver the first late broadcast, if there is any."""
        if self.strayed[acceptor]:
            operation = self.strayed[acceptor].pop(0)
            self.core(acceptor).gates.on_broadcast(operation.queue, operation.epoch)

    def meet(self, acceptor: int) -> bool:
        """Inform an acceptor of the next start, death or end of a shard."""
        life = self.acceptors[acceptor]
        if life is None or not life.events:
            return False
        event, shard, incarnation = life.events.popleft()
        if event == "died":
            self.lose_shard(life, shard, incarnation)
        elif event == "gone":
            life.core.shard_gone(shard)
        else:
            self.meet_shard(life, shard, incarnation)
        return True

    def mourn(self, shard: int) -> bool:
        """Inform a shard of the next death of an acceptor, or the start, death or end of another shard."""
        life = self.shards[shard]
        if life is None or not life.events:
            return False
        life.core.state.now = self.microseconds()
        event, role, index, incarnation = life.events.popleft()
        if event == "died":
            life.core.died(role, index, incarnation)
            if role == "shard":
                self.lose_peer(life, index, incarnation)
        elif event == "gone":
            life.core.peers[index].end()
        elif role == "shard":
            self.meet_peer(life, index, incarnation)
        return True

    def recheck(self, acceptor: int) -> None:
        """Run an acceptor's rechecks."""
        core = self.core(acceptor)
        core.state.now = self.now
        core.recheck()

    def meter(self, acceptor: int) -> None:
        """Have an acceptor check the gates that open with time."""
        life = self.acceptors[acceptor]
        if life is not None:
            life.core.state.now = self.now
            life.core.gates.metered.serve()


def unpacked(frames: Frames, receives: Operations) -> tuple[int, int, int, list[Operation], list[Any]]:
    """Return turn, version, last report received, operations and parts of a multipart to a receiver."""
    turn, version, last_report, operations, parts, apart = bus.read_head(frames[0], receives)
    following = iter(frames[1:])
    assert apart == len(frames) - 1
    return turn, version, last_report, operations, [next(following) if part is None else part for part in parts]
