"""Users and their permissions: the part of the topology by which every process decides what a user may do.

The rules are RabbitMQ's. A user may open a vhost in which it has any permissions. A permission is a regular expression
over the names of queues and exchanges; an empty one matches nothing. Topic permissions add a second expression, over
routing keys, for one exchange; a user without them may use all keys of that exchange.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from penstock.text.patterns import PatternError, literal, pattern
from router.model.record_kind import Record, Records, of_kind

Right = Literal["configure", "write", "read"]
TopicRight = Literal["write", "read"]

IMPERSONATOR = "impersonator"
TAGS = ("administrator", "monitoring", "policymaker", "management", IMPERSONATOR)
"""The tags that have a meaning, as in RabbitMQ."""


@of_kind("user", "users", key=1, packed=("tags",))
@dataclass(frozen=True, slots=True)
class User(Record):
    """A user. `password_hash` is in the format of `penstock.control.passwords`."""

    name: str
    password_hash: str
    tags: list[str] = field(hash=False)


@of_kind("permission", "permissions", key=2)
@dataclass(frozen=True, slots=True)
class Permission(Record):
    """The rights of a user in a vhost: three regular expressions over names."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


@of_kind("topic_permission", "topic_permissions", key=3)
@dataclass(frozen=True, slots=True)
class TopicPermission(Record):
    """The routing keys with which a user may publish to an exchange (`write`) and bind from it (`read`).

    `{username}` and `{vhost}` in an expression stand for those of the user.
    """

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class Users:
    """The users and permissions of one replica."""

    def __init__(
        self,
        users: Records[str, User],
        permissions: Records[tuple[str, str], Permission],
        topic_permissions: Records[tuple[str, str, str], TopicPermission],
    ) -> None:
        self._users = users
        self._permissions = permissions
        self._topics = topic_permissions

    @property
    def generation(self) -> int:
        """A number that increases with every change of users and permissions."""
        return self._users.changed + self._permissions.changed + self._topics.changed

    # Looking up

    def user(self, name: str) -> User | None:
        """Return the user of that name, None if there is none."""
        return self._users.get(name)

    def all(self) -> list[User]:
        return list(self._users.values())

    def permission(self, user: str, vhost: str) -> Permission | None:
        """Return a user's permission in a vhost, None if it has none."""
        return self._permissions.get((user, vhost))

    def permissions(self, user: str | None = None, vhost: str | None = None) -> list[Permission]:
        """Return all permissions, or those of one user, in one vhost, or both."""
        return [
            each for each in self._permissions.values() if user in (None, each.user) and vhost in (None, each.vhost)
        ]

    def topic_permissions(self, user: str | None = None, vhost: str | None = None) -> list[TopicPermission]:
        """Return all topic permissions, or those of one user, in one vhost, or both."""
        return [each for each in self._topics.values() if user in (None, each.user) and vhost in (None, each.vhost)]

    def has_tag(self, name: str, tag: str) -> bool:
        """Whether there is a user of that name with that tag."""
        user = self._users.get(name)
        return user is not None and tag in user.tags

    # Deciding

    def may(self, user: str, vhost: str, right: Right, name: str) -> bool:
        """Whether a user has a right to the queue or exchange of that name."""
        permission = self._permissions.get((user, vhost))
        return permission is not None and _matches(getattr(permission, right), name)

    def limits_topics(self, user: str, vhost: str, exchange: str) -> bool:
        """Whether a user has topic permissions for an exchange."""
        return (user, vhost, exchange) in self._topics

    def may_use_topic(self, user: str, vhost: str, exchange: str, right: TopicRight, key: str) -> bool:
        """Whether a user has a right to a routing key of a topic exchange; True without topic permissions for it."""
        permission = self._topics.get((user, vhost, exchange))
        if permission is None:
            return True
        text: str = getattr(permission, right)
        for variable, value in (("{username}", user), ("{vhost}", vhost)):
            if variable in text:
                text = text.replace(variable, literal(value))
        try:
            return _matches(text, key)
        except PatternError:  # too long with the names filled in
            return False


def _matches(text: str, name: str) -> bool:
    return text != "" and pattern(text).matches(name)
