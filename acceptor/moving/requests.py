"""The requests of methods to the router and to shards, and the return of their answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.clients.asking import Answer, ToRouter, ToShard

if TYPE_CHECKING:
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.state import AcceptorState
    from acceptor.moving.moving import Moves


class Requests:
    """The requests of an acceptor. `until_current` waits for the replica to catch up with the topology."""

    def __init__(self, acceptor: AcceptorState, moves: Moves) -> None:
        self.acceptor = acceptor
        self.moves = moves
        self.until_current: list[Callable[[], None]] = []

    def ask(self, request: ToRouter | ToShard, resume: Callable[[Answer], None]) -> None:
        """Send a request of a running method, and call `resume` with the answer."""
        if isinstance(request, ToRouter):

            def done(result: Any, error: Any) -> None:
                self.once_current(partial(resume, Answer(result, error)))

            self.acceptor.router_requests.append((request.name, request.arguments, done))
        else:
            self.moves.ask(request, resume)

    def once_current(self, action: Callable[[], None]) -> None:
        """Call `action` once the replica is current: the router's answer may arrive before the change it refers to."""
        if self.acceptor.behind():
            self.until_current.append(action)
        else:
            action()

    def catch_up(self) -> None:
        """The replica has moved on: methods whose answers waited for that go on."""
        if not self.acceptor.behind():
            actions, self.until_current = self.until_current, []
            for action in actions:
                action()

    def delete_exclusive(self, connection: ConnectionState, done: Callable[[], None]) -> None:
        """Have the router delete the exclusive queues of a connection, then call `done`."""
        if not connection.owns_queues:
            done()
            return
        arguments = {"connection": connection.id}
        self.acceptor.router_requests.append(("connection_closed", arguments, lambda result, error: done()))
