"""What the router does for a joined node, and what its followers hear of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from penstock import bus
from penstock.bus.router_messages import Published
from router.authority.governing import delete_policy, set_policy
from router.core import Turn
from router.model.topology import Policy, Queue
from tests.router.making import rabbit_hash
from tests.simulator.joined.processes import Acceptor, Process, Shard
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
        """Carry out a command of the control socket; return its result."""
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
        self.publish_changes()

    def ask(self, operation: str, /, **arguments: Any) -> Any:
        """Have the authority carry out an operation; return the result. AssertionError if it refuses."""
        outcome = self.router.ask(operation, **arguments)
        assert outcome.error is None, outcome
        self.publish_changes()
        return outcome.result

    def publish_changes(self) -> None:
        """Finish the router's turn, as far as its store lets it: first changes are published, then the version is in
        the gauges, then requests and commands are answered.
        """
        turn = self.router.finish_turn()
        if turn is not None:
            self.publish(turn)

    def publish(self, turn: Turn) -> None:
        """Send what a turn of the router puts out."""
        if turn.published is not None:
            for kind, *fields in Published(*bus.unpack(turn.published)).changes or ():
                if kind == "queue":
                    self.note_home(Queue(*fields))
            for follower in self.followers.values():
                follower.changes.append(turn.published)
            self.gauges.set_topology_version(turn.version)
        for identity, reply in turn.replies:
            if identity in self.followers:
                self.followers[identity].replies.append(reply)
        for answered, answer in turn.answers:
            answered(answer)

    def note_home(self, queue: Queue) -> None:
        """Record a queue's new home: its book moves along, unless the old home has just died."""
        home = self.homes.get(queue.queue_id, queue.shard)
        source, target = self.shards[home], self.shards[queue.shard]
        if home != queue.shard and source is not None and target is not None:
            source.hand_on(queue.queue_id, target)
        self.homes[queue.queue_id] = queue.shard

    def kill_router(self, arriving: int = 1 << 30) -> None:
        """Kill the router; each follower still receives `arriving` of its published changes and answers."""
        self.router_runs = False
        self.end_router()
        for follower in self.followers.values():
            follower.asked.clear()
            for line in (follower.changes, follower.replies):
                while len(line) > arriving:
                    line.pop()

    def start_router(self) -> None:
        """Start a new incarnation of the router from its store, and inform its followers."""
        self.router_runs = True
        self.router = self.new_router()
        self.handle_deaths()
        self.gauges.set_topology_version(self.version)
        for follower in list(self.followers.values()):
            follower.router.router_started()
            self.ask_router(follower)

    def announce_death(self) -> None:
        """Tell the router that a process has died."""
        if self.router_runs:
            self.handle_deaths()

    def handle_deaths(self) -> None:
        """Have the router do what follows from the deaths of processes."""
        self.router.processes.handle_deaths()
        self.publish_changes()

    def move(self, name: str, shard: int) -> list[dict[str, Any]]:
        """Start to move a queue to a shard; return the list that the result will be in."""
        results: list[dict[str, Any]] = []
        self.router.authority.moves.start("/", name, shard, None, None, results.append)
        self.publish_changes()
        return results

    def abort_move(self, name: str) -> bool:
        """Abort a queue's move; return whether that was possible."""
        aborted = self.router.authority.moves.abort("/", name)
        self.publish_changes()
        return aborted

    def snapshot(self) -> list[Any]:
        """Return the changes that make up the topology."""
        self.publish_changes()
        changes: list[Any] = bus.unpack(bus.pack(list(self.router.topology.changes())))
        return changes

    def load(self, process: Process) -> None:
        """Give a new incarnation the router's topology."""
        self.followers[process.identity] = process
        process.router.ask_for_snapshot()
        self.ask_router(process)
        self.reply(process)

    def carry_out(self, process: Acceptor | Shard) -> None:
        """Send a core's requests to the router; `reply` delivers the answers."""
        requests, process.requesting.router_requests = process.requesting.router_requests, []
        for name, arguments, done in requests:
            process.router.request(name, arguments, done)
        if self.router_runs and self.router_answers_at_once:
            self.ask_router(process)

    def ask_router(self, process: Process) -> None:
        """Have the router carry out the requests that a core has sent, and finish its turn."""
        self.receive_requests(process)
        self.publish_changes()

    def receive_requests(self, process: Process) -> None:
        """Have the router carry out the requests that a core has sent, in the turn in progress."""
        asked = list(process.asked)
        process.asked.clear()
        for frame in asked:
            self.router.core.receive(process.identity, frame)

    def reply(self, process: Process) -> bool:
        """Deliver the router's next answer to a follower."""
        return self.receive_from_router(process, process.router.on_reply, process.replies)

    def receive_from_router(self, process: Process, handle: Callable[[bytes], None], line: deque[bytes]) -> bool:
        """Deliver a message of the router: any may let a shard process turns that were ahead of its topology."""
        if not line:
            return False
        if isinstance(process, Shard):
            process.core.state.now = self.microseconds()
        handle(line.popleft())
        if isinstance(process, Shard):
            process.has_processed()
        return True

    def change(self, process: Process) -> bool:
        """Deliver the next change of the topology to a follower."""
        return self.receive_from_router(process, process.router.on_change, process.changes)
