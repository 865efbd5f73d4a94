"""Rights: by the node's own users and permissions, by a token, or by a service that has to be asked; an operator of the
node has them all.

A right that a service has not decided yet is `Undecided`: the method or the publishes that need it wait, and are tried
again from their beginning when the answer is there. So rights are asked before anything is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from router.model.users import Right, TopicRight, Users

Kind = Literal["queue", "exchange"]
Resume = Callable[[Any], None]


class Undecided(Exception):
    """A right that is not known yet. `start` asks for it, and calls back, with any value, once it is."""

    def __init__(self, start: Callable[[Resume], None]) -> None:
        super().__init__("a right that is not known yet")
        self.start = start


class Rights(Protocol):
    """The rights of one user. All but `has_tag` may raise `Undecided`. Equal rights have equal answers."""

    @property
    def user(self) -> str: ...

    @property
    def is_internal(self) -> bool:
        """Whether the user is one of the node's own: it is gone when that is deleted."""
        ...

    @property
    def generation(self) -> int:
        """A number that increases whenever answers may have changed."""
        ...

    def may_open(self, vhost: str) -> bool: ...

    def may(self, vhost: str, right: Right, kind: Kind, name: str) -> bool: ...

    def may_use_topic(self, vhost: str, exchange: str, right: TopicRight, key: str) -> bool: ...

    def has_tag(self, tag: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class OperatorRights:
    """The rights of the operator of the node: all of them, without a user."""

    user = ""
    is_internal = False
    generation = 0

    def may_open(self, vhost: str) -> bool:
        return True

    def may(self, vhost: str, right: Right, kind: Kind, name: str) -> bool:
        return True

    def may_use_topic(self, vhost: str, exchange: str, right: TopicRight, key: str) -> bool:
        return True

    def has_tag(self, tag: str) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class InternalRights:
    """The rights of one of the node's own users."""

    users: Users
    user: str
    is_internal = True

    @property
    def generation(self) -> int:
        return self.users.generation

    def may_open(self, vhost: str) -> bool:
        """Whether the user has any permissions in the vhost."""
        return self.users.permission(self.user, vhost) is not None

    def may(self, vhost: str, right: Right, kind: Kind, name: str) -> bool:
        return self.users.may(self.user, vhost, right, name)

    def may_use_topic(self, vhost: str, exchange: str, right: TopicRight, key: str) -> bool:
        return self.users.may_use_topic(self.user, vhost, exchange, right, key)

    def has_tag(self, tag: str) -> bool:
        return self.users.has_tag(self.user, tag)
