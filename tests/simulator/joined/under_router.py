"""What the router does for a joined node, and what its followers hear of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from penstock import bus
from router.authority.governing import delete_policy, set_policy
from router.authority.ledger import Step
from router.authority.operations import Outcome
from router.core import SNAPSHOT
from router.model.topology import Policy, Queue
from tests.router.making import rabbit_hash
from tests.simulator.joined.processes import Acceptor, Shard
from tests.simulator.joined.running import Running


class UnderRouter(Running):
    """A node whose router answers each request at once, unless a subclass says otherwise."""

    router_answers_at_once = True

    def add_user(self, name: str, write: str = ".*", vhost: str = "/") -> None:
        """Add a user who may declare and read everything in a vhost, and write to names that match."""
        self.router.command("user_add", name=name, password_hash=rabbit_hash("guest"), tags=[])
        self.permit(name, write, vhost)

    def permit(self, name: str, write: str, vhost: str = "/") -> None:
        """Set a user's write permission in a vhost; configure and read match everything."""
        self.router.command("permission_set", user=name, vhost=vhost, configure=".*", write=write, read=".*")
        self.publish_changes()

    def add_vhost(self, name: str) -> None:
        """Add a vhost that guest may use."""
        self.router.command("vhost_add", name=name)
        self.router.command("permission_set", user="guest", vhost=name, configure=".*", write=".*", read=".*")
        self.publish_changes()

    def declare(self, name: str, shard: int = 0, durable: bool = False, **arguments: Any) -> Queue:
        """Declare a queue on a shard; all replicas know it once the node has settled."""
        self.ask("queue_place", vhost="/", name=name, shard=shard)
        self.ask("queue_declare", name=name, durable=durable, arguments=arguments)
        return self.queue(name)

    def bind(
        self, exchange: str, *queues: str, key: str = "", type: str = "fanout", user: str = "guest", **options: Any
    ) -> None:
        """Bind queues to an exchange, as a user."""
        self.ask("exchange_declare", name=exchange, type=type)
        for queue in queues:
            self.ask("queue_bind", queue=queue, source=exchange, key=key, user=user, **options)

    def command(self, command: str, /, **arguments: Any) -> Any:
        """Run a command of the control socket; return its result."""
        result = self.router.command(command, **arguments)
        self.publish_changes()
        return result

    def policy(
        self, name: str, pattern: str, definition: dict[str, Any] | None, apply_to: str = "queues", vhost: str = "/"
    ) -> None:
        """Set a policy, or delete it if there is no definition."""
        ledger, defaults = self.router.authority.ledger, self.router.authority.defaults
        known = self.router.topology.policy(vhost, name, operator=False)
        if definition is not None:
            set_policy(ledger, Policy(vhost, False, name, pattern, apply_to, 0, definition), defaults)
        elif known is not None:
            delete_policy(ledger, known, defaults)
        self.router.recorded += ledger.take_steps()
        self.publish_changes()

    def ask(self, operation: str, /, **arguments: Any) -> Any:
        """Have the authority carry out an operation; return the result. AssertionError if it refuses."""
        outcome = self.router.ask(operation, **arguments)
        assert outcome.error is None, outcome
        self.publish_changes()
        return outcome.result

    def publish_changes(self) -> None:
        """Publish as the router does: first the changes, then the version in the gauges, then the answers."""
        steps, self.router.recorded = self.router.recorded, []
        if steps:
            self.publish_steps(steps)
        for ended, result in self.router.authority.moves.take_answers():
            ended(result)

    def publish_steps(self, steps: list[Step]) -> None:
        """Publish changes of the topology under a new version."""
        self.version += 1
        self.router.topology.version = self.version
        for step in steps:
            if step.change[0] == "queue":
                self.note_home(Queue(*step.change[1:]))
        published = bus.pack([self.version, [step.change for step in steps]])
        self.recent.add(self.version, published)
        for life in self.lives_now():
            life.changes.append(published)
        self.gauges.set_topology_version(self.version)

    def note_home(self, queue: Queue) -> None:
        """Record a queue's new home: its book moves along, unless the old home has just died."""
        home = self.homes.get(queue.queue_id, queue.shard)
        source, target = self.shards[home], self.shards[queue.shard]
        if home != queue.shard and source is not None and target is not None:
            source.hand_on(queue.queue_id, target)
        self.homes[queue.queue_id] = queue.shard

    def kill_router(self, arriving: int = 1 << 30) -> None:
        """Kill the router; each follower still receives `arriving` of its published changes and answers."""
        self.router_lives = False
        for life in self.lives_now():
            life.asked.clear()
            for line in (life.changes, life.replies):
                while len(line) > arriving:
                    line.pop()

    def start_router(self, epoch_begins: bool = False) -> None:
        """Start a new incarnation of the router from its storage, and inform its followers."""
        self.router_lives = True
        self.router.start_again(self.version, epoch_begins)
        self.show_router_the_shards()
        self.look_at_moves()
        for index, life in enumerate(self.acceptors):
            self.router.acceptor_died(index, self.lives["acceptor", index] - (life is not None))
        self.publish_changes()
        for follower in self.lives_now():
            follower.router.router_started()
            self.ask_router(follower)

    def show_router_the_shards(self) -> None:
        """Give the router its view of the shards."""
        self.router.authority.moves.incarnation_of = self.incarnation_of
        self.router.authority.moves.is_full = self.gauges.saturated

    def move(self, name: str, shard: int) -> list[dict[str, Any]]:
        """Start to move a queue to a shard; return the list that the result will be in."""
        self.show_lives()
        results: list[dict[str, Any]] = []
        self.router.authority.moves.start("/", name, shard, None, None, results.append)
        self.router.recorded += self.router.authority.ledger.take_steps()
        self.publish_changes()
        return results

    def abort_move(self, name: str) -> bool:
        """Abort a queue's move; return whether that was possible."""
        aborted = self.router.authority.moves.abort("/", name)
        self.router.recorded += self.router.authority.ledger.take_steps()
        self.publish_changes()
        return aborted

    def look_at_moves(self) -> None:
        """Have the router roll back the moves whose processes have died."""
        self.router.authority.moves.roll_back_failed()
        self.router.recorded += self.router.authority.ledger.take_steps()
        self.publish_changes()

    def snapshot(self) -> list[Any]:
        """Return the changes that make up the topology."""
        self.publish_changes()
        changes: list[Any] = bus.unpack(bus.pack(list(self.router.topology.changes())))
        return changes

    def load(self, life: Acceptor | Shard) -> None:
        """Give a new incarnation the router's topology."""
        life.router.ask_for_snapshot()
        self.ask_router(life)
        self.reply(life)

    def carry_out(self, life: Acceptor | Shard) -> None:
        """Send a core's requests to the router; `reply` delivers the answers."""
        requests, life.requesting.router_requests = life.requesting.router_requests, []
        for name, arguments, done in requests:
            life.router.request(name, arguments, done)
        if self.router_lives and self.router_answers_at_once:
            self.ask_router(life)

    def ask_router(self, life: Acceptor | Shard) -> None:
        """Carry out the requests that a core has sent."""
        asked = list(life.asked)
        life.asked.clear()
        for frame in asked:
            number, name, arguments = bus.unpack(frame)
            outcome = Outcome() if name == SNAPSHOT else self.router.ask(name, **arguments)
            self.publish_changes()
            if name == SNAPSHOT:
                turns = self.recent.since(arguments["have"], self.version)
                whole = {"changes": list(self.router.topology.changes())} if turns is None else {"turns": turns}
                outcome = Outcome(whole)
            life.replies.append(bus.pack([number, self.version, outcome.result, outcome.error]))

    def reply(self, life: Acceptor | Shard) -> bool:
        """Deliver the router's next answer to a follower."""
        return self.hear_router(life, life.router.on_reply, life.replies)

    def hear_router(self, life: Acceptor | Shard, hear: Callable[[bytes], None], line: deque[bytes]) -> bool:
        """Deliver a message of the router: any may let a shard process turns that were ahead of its topology."""
        if not line:
            return False
        if isinstance(life, Shard):
            life.core.state.now = self.microseconds()
        hear(line.popleft())
        if isinstance(life, Shard):
            life.has_processed()
        return True

    def change(self, life: Acceptor | Shard) -> bool:
        """Deliver the next change of the topology to a follower."""
        return self.hear_router(life, life.router.on_change, life.changes)
