"""Rights of a user in a vhost, checked before a method is carried out (RabbitMQ's access control).

Decisions are cached until anything about users changes. Publishes are checked when their route is made, and the route
is cached by the same `Access`: a user without the right never finds a route that was made for another user.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from acceptor.gates.rights import Kind, Rights
from penstock.amqp.errors import amqp_error
from router.model.topology import Exchange
from router.model.users import Right, TopicRight

DECISIONS_MAX = 4096
"""Cached decisions of a user in a vhost; a client that makes up names empties the cache, and cannot fill memory."""
DEFAULT_EXCHANGE_NAME = "amq.default"
"""The name of the default exchange in permissions."""


class Access:
    """The rights of one user in one vhost; shared by all such connections of the acceptor. Each method may raise
    `Undecided`.
    """

    __slots__ = ("__weakref__", "_decided", "_generation", "rights", "user", "vhost")

    def __init__(self, rights: Rights, vhost: str) -> None:
        self.rights = rights
        self.user = rights.user
        self.vhost = vhost
        self._generation = -1
        self._decided: dict[tuple[Right, Kind, str], bool] = {}

    def check(self, right: Right, kind: Kind, name: str) -> None:
        """Raise 403 without the right to the queue or exchange of that name."""
        name = _effective(kind, name)
        if not self._may(right, kind, name):
            raise amqp_error(403, f"{right} access to {self._described(kind, name)}")

    def check_any(self, kind: Kind, name: str) -> None:
        """Raise 403 unless the user has some right to it: enough to ask whether it exists."""
        name = _effective(kind, name)
        if not any(self._may(right, kind, name) for right in ("configure", "write", "read")):
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
        if not self.rights.may_use_topic(self.vhost, exchange, right, key):
            raise amqp_error(
                403,
                f"{right} access to topic '{key}' in exchange '{exchange}' in vhost '{self.vhost}' "
                f"refused for user '{self.user}'",
            )

    @property
    def declarer(self) -> str | None:
        """The user to record with a queue or exchange; None for an operator, whose declarations are nobody's."""
        return self.user or None

    def has_tag(self, tag: str) -> bool:
        """Whether the user has a tag."""
        return self.rights.has_tag(tag)

    def maker_of(self, exchange: Exchange | None, name: str, key: str) -> str | None:
        """Return the maker to record with a binding from the exchange of that name (`router.model.grants`).

        The other processes know nothing of users that are not the node's own: where such a user could publish itself,
        its binding has no known maker, and grants everything.
        """
        if self.rights.is_internal or not self._may("write", "exchange", _effective("exchange", name)):
            return self.user
        is_topic = exchange is not None and exchange.routing_type == "topic"
        may = not is_topic or self.rights.may_use_topic(self.vhost, name, "write", key)
        return None if may else self.user

    def _described(self, kind: Kind, name: str) -> str:
        return f"{kind} '{name}' in vhost '{self.vhost}' refused for user '{self.user}'"

    def _may(self, right: Right, kind: Kind, name: str) -> bool:
        generation = self.rights.generation
        if self._generation != generation or len(self._decided) >= DECISIONS_MAX:
            self._generation = generation
            self._decided.clear()
        decided = self._decided.get((right, kind, name))
        if decided is None:
            decided = self._decided[right, kind, name] = self.rights.may(self.vhost, right, kind, name)
        return decided


class Permissions:
    """The accesses in use, by rights and vhost."""

    def __init__(self) -> None:
        self._accesses: WeakValueDictionary[tuple[Rights, str], Access] = WeakValueDictionary()

    def access(self, rights: Rights, vhost: str) -> Access:
        """Return the access by some rights to a vhost, whatever it allows."""
        access = self._accesses.get((rights, vhost))
        if access is None:
            access = self._accesses[rights, vhost] = Access(rights, vhost)
        return access


def _effective(kind: Kind, name: str) -> str:
    """Return the name as the router will read it."""
    name = name.replace("\r", "").replace("\n", "")
    return DEFAULT_EXCHANGE_NAME if kind == "exchange" and not name else name
