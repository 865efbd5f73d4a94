"""The scopes of a token as permissions, by RabbitMQ's rules.

    read:VHOST/NAME            configure, write or read: queues and exchanges of that name
    write:VHOST/NAME/KEY       publishes with that routing key only, where NAME is a topic exchange
    tag:administrator          a tag of the user

Before each stands the prefix of this node; scopes without it are others'. `*` in a part stands for any text; other
characters may be URL-encoded. A scope for a vhost, whatever it allows there, is the permission to open it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from acceptor.gates.rights import Kind
from penstock.text.patterns import Pattern, PatternError, literal, pattern
from router.model.users import Right, TopicRight

RIGHTS = ("configure", "write", "read")
SCOPES_MOST = 1000
"""Scopes of a token that are looked at: each is compared with each name that the client uses."""


class Grant(NamedTuple):
    """What a scope allows: a right to names in vhosts, with these routing keys."""

    right: str
    vhost: Pattern
    name: Pattern
    key: Pattern


@dataclass(frozen=True, slots=True)
class TokenRights:
    """The rights of a user by the scopes of its token."""

    user: str
    scopes: frozenset[str]
    grants: tuple[Grant, ...] = field(compare=False, repr=False)
    is_internal = False
    generation = 0

    def may_open(self, vhost: str) -> bool:
        return any(grant.vhost.matches(vhost) for grant in self.grants)

    def may(self, vhost: str, right: Right, kind: Kind, name: str) -> bool:
        return any(
            grant.right == right and grant.vhost.matches(vhost) and grant.name.matches(name) for grant in self.grants
        )

    def may_use_topic(self, vhost: str, exchange: str, right: TopicRight, key: str) -> bool:
        return any(
            grant.right == right
            and grant.vhost.matches(vhost)
            and grant.name.matches(exchange)
            and grant.key.matches(key)
            for grant in self.grants
        )

    def has_tag(self, tag: str) -> bool:
        return f"tag:{tag}" in self.scopes


def rights_of(user: str, scopes: Iterable[str], prefix: str) -> TokenRights:
    """Return the rights of a user by scopes, of which those with the prefix count."""
    own = sorted({scope.removeprefix(prefix) for scope in scopes if scope.startswith(prefix)})[:SCOPES_MOST]
    grants = tuple(grant for scope in own if (grant := _grant(scope)) is not None)
    return TokenRights(user, frozenset(own), grants)


def _grant(scope: str) -> Grant | None:
    """Return what a scope allows; None if it is no permission."""
    right, _, resource = scope.partition(":")
    parts = [unquote(part) for part in resource.split("/")]
    if right not in RIGHTS or len(parts) not in (2, 3):
        return None
    vhost, name, key = parts if len(parts) == 3 else (*parts, "*")
    try:
        return Grant(right, _wildcard(vhost), _wildcard(name), _wildcard(key))
    except PatternError:  # longer than any name
        return None


def _wildcard(text: str) -> Pattern:
    return pattern(f"^(?s:{'.*'.join(literal(part) for part in text.split('*'))})$")
