"""The caller: the user of a request, with its rights to see and change, by RabbitMQ's tags.

    management      its own vhosts and their contents, with its own permissions there
    policymaker     also policies and parameters of these vhosts
    monitoring      also all connections, channels and nodes, and every vhost to look at
    administrator   all of it, and users, vhosts and permissions

A user has the vhosts in which it has any permissions. One without any of the tags may not use the interface.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from console.broker import Broker, Credentials, Facts
from console.http.errors import HttpError, not_found
from penstock.amqp import methods_cy as methods
from penstock.node.runtime_paths import Role
from router.model.users import Right

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = "administrator", "monitoring", "policymaker", "management"
ALLOWED = frozenset((ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT))


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a request."""

    broker: Broker
    user: str
    tags: tuple[str, ...]
    internal: bool
    host: str
    credentials: Credentials | None = field(default=None, repr=False)

    @property
    def is_administrator(self) -> bool:
        return ADMINISTRATOR in self.tags

    @property
    def monitors(self) -> bool:
        """Whether it sees what does not belong to it."""
        return self.is_administrator or MONITORING in self.tags

    @property
    def makes_policies(self) -> bool:
        return self.is_administrator or POLICYMAKER in self.tags

    def opens(self, vhost: str) -> bool:
        """Whether a vhost is one of its own."""
        return self.broker.topology.users.permission(self.user, vhost) is not None

    def sees(self, vhost: str) -> bool:
        """Whether it may see the contents of a vhost."""
        return self.monitors or self.opens(vhost)

    def vhosts(self) -> list[str]:
        """Return the vhosts that it sees, by name."""
        return sorted(vhost for vhost in self.broker.topology.vhosts() if self.sees(vhost))

    # Checks. HttpError if they fail.

    def must_administer(self) -> None:
        if not self.is_administrator:
            raise HttpError(401, "Not administrator user")

    def must_monitor(self) -> None:
        if not self.monitors:
            raise HttpError(401, "Not monitor user")

    def must_make_policies(self, vhost: str) -> None:
        if not self.makes_policies:
            raise HttpError(401, "Not policymaker user")
        self.must_open(vhost)

    def must_see(self, vhost: str) -> None:
        if not self.broker.topology.has_vhost(vhost):
            raise not_found()
        if not self.sees(vhost):
            raise HttpError(401, "User not authorised to access virtual host")

    def must_open(self, vhost: str) -> None:
        if not self.broker.topology.has_vhost(vhost):
            raise not_found()
        if not (self.is_administrator or self.opens(vhost)):
            raise HttpError(401, "User not authorised to access virtual host")

    def must_have(self, vhost: str, right: Right, kind: str, name: str) -> None:
        """Check a right to a queue or an exchange, which administrators need as well, as in RabbitMQ."""
        self.must_open(vhost)
        if not self.broker.topology.users.may(self.user, vhost, right, name):
            raise HttpError(
                401, f"ACCESS_REFUSED - {right} access to {kind} '{name}' in vhost '{vhost}' refused for user"
                f" '{self.user}'"
            )  # fmt: skip

    # Changes

    async def administer(self, command: str, **arguments: Any) -> Any:
        """Have the router carry out a command in this user's name. Later reads show the change."""
        answer = await self._carried_out(self.broker.administer(command, **arguments), command, arguments)
        await self.broker.caught_up()
        return answer

    async def command(self, command: str, **arguments: Any) -> Any:
        """Have an acceptor carry out a command in this user's name."""
        return await self._carried_out(self.broker.command(command, **arguments), command, arguments)

    async def ask(self, role: Role, index: int, question: str, **arguments: Any) -> Any:
        """Have one process do something in this user's name."""
        return await self._carried_out(self.broker.ask(role, index, question, **arguments), question, arguments)

    async def make_plan(self, window: int, moves_max: int | None, leave: list[int]) -> Facts:
        """Make a plan of moves for this user (`console.rebalancing`)."""
        making = self.broker.rebalancing.plan(self.user, window, moves_max, leave)
        arguments = {"window": window, "moves_max": moves_max, "leave": leave}
        found: Facts = await self._carried_out(making, "rebalance_plan", arguments)
        return found

    async def apply_plan(self, plan: str) -> Facts:
        """Begin to apply a plan for this user (`console.rebalancing`)."""
        beginning = self.broker.rebalancing.apply(self.user, plan)
        found: Facts = await self._carried_out(beginning, "rebalance_apply", {"plan": plan})
        return found

    async def method(self, vhost: str, name: str, **arguments: Any) -> Facts:
        """Have an acceptor carry out a method of AMQP as if this user's client had sent it; return what answers it.
        HttpError if the user may not open the vhost, or a frame cannot hold the arguments.
        """
        self.must_act_in(vhost)
        try:
            payload = methods.encode(name, **arguments)
        except (TypeError, ValueError) as error:
            raise HttpError(400, str(error)) from None
        sent = self._as_client("method", vhost, payload=b64encode(payload).decode())
        found: Facts = await self._carried_out(sent, name, {"vhost": vhost, **arguments})
        await self.broker.caught_up()
        return found

    async def publish(self, vhost: str, exchange: str, routing_key: str, properties: bytes, body: bytes) -> Facts:
        """Have an acceptor publish a message of this user (`acceptor.direct.commands`)."""
        self.must_act_in(vhost)
        message: Facts = {"exchange": exchange, "routing_key": routing_key}
        sent = self._as_client(
            "publish", vhost, **message, properties=b64encode(properties).decode(), body=b64encode(body).decode()
        )
        found: Facts = await self._carried_out(sent, "publish", {"vhost": vhost, **message, "bytes": len(body)})
        return found

    async def get(self, vhost: str, **arguments: Any) -> list[Facts]:
        """Have an acceptor get messages for this user (`acceptor.direct.commands`)."""
        self.must_act_in(vhost)
        sent = self._as_client("get", vhost, **arguments)
        found: list[Facts] = await self._carried_out(sent, "get", {"vhost": vhost, **arguments})
        return found

    async def move_messages(self, vhost: str, **arguments: Any) -> Facts:
        """Have an acceptor move messages for this user (`acceptor.direct.move_messages`)."""
        self.must_act_in(vhost)
        sent = self._as_client("move", vhost, **arguments)
        found: Facts = await self._carried_out(sent, "move", {"vhost": vhost, **arguments})
        return found

    def must_act_in(self, vhost: str) -> None:
        """Check that it may open a vhost as a client; rights to queues and exchanges, and all rights of a user that is
        not the node's own, are the acceptor's to check. HttpError if not.
        """
        if self.internal:
            self.must_open(vhost)
        elif not self.broker.topology.has_vhost(vhost):
            raise not_found()

    def _as_client(self, command: str, vhost: str, **arguments: Any) -> Awaitable[Any]:
        name, password = self.credentials or ("", "")
        whose = {"user": self.user, "name": name, "password": password, "host": self.host}
        return self.broker.command(command, **whose, vhost=vhost, **arguments)

    async def _carried_out(self, answer: Any, command: str, arguments: Facts) -> Any:
        outcome = "done"
        try:
            return await answer
        except BaseException as error:
            outcome = f"refused: {error}"
            raise
        finally:
            self._record(command, arguments, outcome)

    def _record(self, command: str, arguments: Facts, outcome: str) -> None:
        self.broker.audit.record_http(self.user, self.host, command, arguments, outcome)
