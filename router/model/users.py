"""Users and what they may do, as every process knows them: a part of the topology.

RabbitMQ's rules: a user may open a vhost if it has permissions there, whichever. A permission is a regular expression
over the names of queues and exchanges; an empty one matches nothing. Topic permissions, by exchange, are a second one
over routing keys, and leave everything open where there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from penstock.text.patterns import PatternError, literal, pattern
from router.model.records import Change

Right = Literal["configure", "write", "read"]
TopicRight = Literal["write", "read"]

IMPERSONATOR = "impersonator"
TAGS = ("administrator", "monitoring", "policymaker", "management", IMPERSONATOR)
"""The tags that mean something (RabbitMQ's)."""


@dataclass(frozen=True, slots=True)
class User:
    """A user. `password_hash` is as `penstock.control.passwords` has it."""

    name: str
    password_hash: str
    tags: tuple[str, ...]

    def change(self) -> Change:
        return ["user", self.name, self.password_hash, list(self.tags)]


@dataclass(frozen=True, slots=True)
class Permission:
    """What a user may do in a vhost: three regular expressions."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str

    def change(self) -> Change:
        return ["permission", self.user, self.vhost, self.configure, self.write, self.read]


@dataclass(frozen=True, slots=True)
class TopicPermission:
    """What routing keys a user may publish to, and bind from, an exchange. {username} and {vhost} stand for his."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str

    def change(self) -> Change:
        return ["topic_permission", self.user, self.vhost, self.exchange, self.write, self.read]


class Users:
    """One copy of all users and permissions. `generation` moves whenever any of it changes."""

    def __init__(self) -> None:
        self.generation = 0
        self._users: dict[str, User] = {}
        self._permissions: dict[tuple[str, str], Permission] = {}
        self._topics: dict[tuple[str, str, str], TopicPermission] = {}
        self.kinds: dict[str, Callable[..., None]] = {
            "user": self._user,
            "user_gone": self._user_gone,
            "permission": self._permission,
            "permission_gone": self._permission_gone,
            "topic_permission": self._topic_permission,
            "topic_permission_gone": self._topic_permission_gone,
        }

    # Following

    def reset(self) -> None:
        self.generation += 1
        self._users.clear()
        self._permissions.clear()
        self._topics.clear()

    def _user(self, name: str, password_hash: str, tags: list[str]) -> None:
        self.generation += 1
        self._users[name] = User(name, password_hash, tuple(tags))

    def _user_gone(self, name: str) -> None:
        self.generation += 1
        del self._users[name]

    def _permission(self, *fields: str) -> None:
        self.generation += 1
        permission = Permission(*fields)
        self._permissions[permission.user, permission.vhost] = permission

    def _permission_gone(self, user: str, vhost: str) -> None:
        self.generation += 1
        del self._permissions[user, vhost]

    def _topic_permission(self, *fields: str) -> None:
        self.generation += 1
        permission = TopicPermission(*fields)
        self._topics[permission.user, permission.vhost, permission.exchange] = permission

    def _topic_permission_gone(self, user: str, vhost: str, exchange: str) -> None:
        self.generation += 1
        del self._topics[user, vhost, exchange]

    def changes(self) -> Iterator[Change]:
        """A snapshot: changes that make all this from nothing."""
        yield from (user.change() for user in self._users.values())
        yield from (permission.change() for permission in self._permissions.values())
        yield from (topic.change() for topic in self._topics.values())

    # Looking up

    def user(self, name: str) -> User | None:
        return self._users.get(name)

    def all(self) -> list[User]:
        return list(self._users.values())

    def permission(self, user: str, vhost: str) -> Permission | None:
        return self._permissions.get((user, vhost))

    def permissions(self, user: str | None = None, vhost: str | None = None) -> list[Permission]:
        """All, or those of a user, in a vhost."""
        return [
            each for each in self._permissions.values() if user in (None, each.user) and vhost in (None, each.vhost)
        ]

    def topic_permissions(self, user: str | None = None, vhost: str | None = None) -> list[TopicPermission]:
        return [each for each in self._topics.values() if user in (None, each.user) and vhost in (None, each.vhost)]

    def has_tag(self, name: str, tag: str) -> bool:
        user = self._users.get(name)
        return user is not None and tag in user.tags

    # Deciding

    def may(self, user: str, vhost: str, right: Right, name: str) -> bool:
        """Whether a user has a right to the queue or exchange of that name."""
        permission = self._permissions.get((user, vhost))
        return permission is not None and _matches(getattr(permission, right), name)

    def limits_topics(self, user: str, vhost: str, exchange: str) -> bool:
        """Whether topic permissions say something of a user and an exchange."""
        return (user, vhost, exchange) in self._topics

    def may_use_topic(self, user: str, vhost: str, exchange: str, right: TopicRight, key: str) -> bool:
        """Whether a user has a right to a routing key of a topic exchange."""
        permission = self._topics.get((user, vhost, exchange))
        if permission is None:
            return True
        text: str = getattr(permission, right)
        for variable, value in (("{username}", user), ("{vhost}", vhost)):
            if variable in text:
                text = text.replace(variable, literal(value))
        try:
            return _matches(text, key)
        except PatternError:  # it grew too long
            return False


def _matches(text: str, name: str) -> bool:
    return text != "" and pattern(text).matches(name)
