"""Rights of a user in a vhost, checked before a method is carried out (RabbitMQ's access control).

Decisions are cached until anything about users changes. Publishes are checked when their route is made, and the route
is cached by the same `Access`: a user without the right never finds a route that was made for another user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from weakref import WeakValueDictionary

from penstock.amqp.errors import amqp_error
from router.model.topology import Exchange
from router.model.users import Right, TopicRight, Users

if TYPE_CHECKING:
    from router.model.topology import Topology

Kind = Literal["queue", "exchange"]

DECISIONS_MAX = 4096
"""Cached decisions of a user in a vhost; a client that makes up names empties the cache, and cannot fill memory."""
DEFAULT_EXCHANGE_NAME = "amq.default"
"""The name of the default exchange in permissions."""


class Access:
    """The rights of one user in one vhost; shared by all such connections of the acceptor."""

    __slots__ = ("__weakref__", "_decided", "_generation", "_users", "user", "vhost")

    def __init__(self, users: Users, user: str, vhost: str) -> None:
        self.user = user
        self.vhost = vhost
        self._users = users
        self._generation = -1
        self._decided: dict[tuple[Right, str], bool] = {}

    def check(self, right: Right, kind: Kind, name: str) -> None:
        """Raise 403 without the right to the queue or exchange of that name."""
        name = _effective(kind, name)
        if not self._may(right, name):
            raise amqp_error(403, f"{right} access to {self._described(kind, name)}")

    def check_any(self, kind: Kind, name: str) -> None:
        """Raise 403 unless the user has some right to it: enough to ask whether it exists."""
        name = _effective(kind, name)
        if not any(self._may(right, name) for right in ("configure", "write", "read")):
            raise amqp_error(403, f"access to {self._described(kind, name)}")

    def check_topic(self, right: TopicRight, exchange: Exchange | None, key: str) -> None:
        """Raise 403 without the right to a routing key, if the exchange is a topic exchange."""
        if exchange is not None and exchange.routing_type == "topic":
            self._check_topic_of(right, exchange.name, key)

    def check_dead_letter_key(self, name: str, exchange: Exchange | None, key: str) -> None:
        """Raise 403 without the right to write with that key to a dead-letter exchange, which may be made later."""
        if exchange is None or exchange.routing_type == "topic":
            self._check_topic_of("write", name, key)

    def _check_topic_of(self, right: TopicRight, exchange: str, key: str) -> None:
        if not self._users.may_use_topic(self.user, self.vhost, exchange, right, key):
            raise amqp_error(
                403,
                f"{right} access to topic '{key}' in exchange '{exchange}' in vhost '{self.vhost}' "
                f"refused for user '{self.user}'",
            )

    def has_tag(self, tag: str) -> bool:
        """Whether the user has a tag."""
        return self._users.has_tag(self.user, tag)

    def _described(self, kind: Kind, name: str) -> str:
        return f"{kind} '{name}' in vhost '{self.vhost}' refused for user '{self.user}'"

    def _may(self, right: Right, name: str) -> bool:
        if self._generation != self._users.generation or len(self._decided) >= DECISIONS_MAX:
            self._generation = self._users.generation
            self._decided.clear()
        decided = self._decided.get((right, name))
        if decided is None:
            decided = self._decided[right, name] = self._users.may(self.user, self.vhost, right, name)
        return decided


class Permissions:
    """The accesses in use, by user and vhost."""

    def __init__(self, topology: Topology) -> None:
        self._users = topology.users
        self._accesses: WeakValueDictionary[tuple[str, str], Access] = WeakValueDictionary()

    def access(self, user: str, vhost: str) -> Access:
        """Return the access of a user in a vhost, whatever it allows."""
        access = self._accesses.get((user, vhost))
        if access is None:
            access = self._accesses[user, vhost] = Access(self._users, user, vhost)
        return access

    def may_open(self, user: str, vhost: str) -> bool:
        """Whether the user has any permissions in the vhost."""
        return self._users.permission(user, vhost) is not None


def _effective(kind: Kind, name: str) -> str:
    """Return the name as the router will read it."""
    name = name.replace("\r", "").replace("\n", "")
    return DEFAULT_EXCHANGE_NAME if kind == "exchange" and not name else name
