"""Commands on users and permissions. Every change is durable."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.control import passwords
from penstock.control.control import Refusal
from penstock.text.patterns import PatternError, pattern
from router.authority import vhosts
from router.authority.ledger import Ledger
from router.commands.administration import Administration, check_name, check_user, check_vhost
from router.model.resource_limits import Holder
from router.model.users import TAGS, Permission, TopicPermission, User

GUEST = "guest"
EVERYTHING = ".*"


def seed(ledger: Ledger) -> None:
    """Make the accounts of a new node, as in RabbitMQ: the vhost "/", and guest, password guest, with all rights."""
    vhosts.add(ledger, vhosts.DEFAULT_VHOST)
    _record(ledger, User(GUEST, passwords.hashed(GUEST), ["administrator"]))
    _record(ledger, Permission(GUEST, vhosts.DEFAULT_VHOST, EVERYTHING, EVERYTHING, EVERYTHING))


def ensure_first_user(ledger: Ledger, name: str, password: str) -> None:
    """Make an administrator with all rights in the vhost "/", as far as there is one. A user that exists gets the
    password if it has another one.
    """
    user = ledger.topology.users.user(name)
    if user is None:
        _record(ledger, User(name, passwords.hashed(password), ["administrator"]))
        if vhosts.DEFAULT_VHOST in ledger.topology.vhosts():
            _record(ledger, Permission(name, vhosts.DEFAULT_VHOST, EVERYTHING, EVERYTHING, EVERYTHING))
    elif not passwords.verify(user.password_hash, password):
        _record(ledger, User(name, passwords.hashed(password), user.tags))


# Users


def user_add(administration: Administration, name: str, password_hash: str, tags: list[Any]) -> None:
    """Add a user. Refusal if the name is taken."""
    check_name("user", name)
    if administration.ledger.topology.users.user(name) is not None:
        raise Refusal("exists", f"there is a user '{name}' already")
    _check_hash(password_hash)
    _record(administration.ledger, User(name, password_hash, _known_tags(tags)))


def user_import(administration: Administration, name: str, password_hash: str, tags: list[str]) -> None:
    """Add a user, or replace it. Tags without a meaning here are kept."""
    check_name("user", name)
    _check_hash(password_hash)
    _record(administration.ledger, User(name, password_hash, tags))


def user_set(administration: Administration, name: str, password_hash: str | None, tags: list[Any] | None) -> None:
    """Change the fields that are not None. Open connections stay."""
    user = _user(administration.ledger, name)
    if password_hash is not None:
        _check_hash(password_hash)
    _record(
        administration.ledger,
        User(
            name,
            user.password_hash if password_hash is None else password_hash,
            user.tags if tags is None else _known_tags(tags),
        ),
    )


def user_delete(administration: Administration, name: str) -> None:
    """Delete a user with its permissions and limits; acceptors close its connections."""
    ledger = administration.ledger
    user, users = _user(ledger, name), ledger.topology.users
    for topic in users.topic_permissions(user=name):
        ledger.record(topic.change_gone(), durable=True)
    for permission in users.permissions(user=name):
        ledger.record(permission.change_gone(), durable=True)
    ledger.forget_limits(Holder("user", name))
    ledger.record(user.change_gone(), durable=True)


def user_list(administration: Administration) -> list[dict[str, Any]]:
    """Return all users by name, with their tags, whether they have a password, and the vhosts they may open."""
    users = administration.ledger.topology.users
    vhosts_of: dict[str, list[str]] = {}
    for permission in users.permissions():
        vhosts_of.setdefault(permission.user, []).append(permission.vhost)
    return [
        {
            "name": user.name,
            "tags": user.tags,
            "password": bool(user.password_hash),
            "vhosts": sorted(vhosts_of.get(user.name, ())),
        }
        for user in sorted(users.all(), key=lambda user: user.name)
    ]


# Permissions


def permission_set(
    administration: Administration, user: str, vhost: str, configure: str, write: str, read: str
) -> None:
    """Set a user's permission in a vhost."""
    ledger = administration.ledger
    _user(ledger, user)
    check_vhost(ledger, vhost)
    _check_patterns(configure, write, read)
    _record(ledger, Permission(user, vhost, configure, write, read))


def permission_delete(administration: Administration, user: str, vhost: str) -> None:
    """Delete a user's permission to open a vhost; its open connections there stay, without any rights."""
    ledger = administration.ledger
    found = ledger.topology.users.permission(user, vhost)
    if found is None:
        raise Refusal("not_found", f"user '{user}' has no permissions in vhost '{vhost}'")
    ledger.record(found.change_gone(), durable=True)


def permission_list(administration: Administration, user: str | None, vhost: str | None) -> list[dict[str, Any]]:
    """Return the permissions of a user in a vhost (None: any), by vhost and user."""
    found = administration.ledger.topology.users.permissions(user, vhost)
    return [asdict(permission) for permission in sorted(found, key=lambda each: (each.vhost, each.user))]


def topic_permission_set(
    administration: Administration, user: str, vhost: str, exchange: str, write: str, read: str
) -> None:
    """Set a user's topic permission. The exchange need not exist yet."""
    ledger = administration.ledger
    _user(ledger, user)
    check_vhost(ledger, vhost)
    check_name("exchange", exchange)
    _check_patterns(write, read)
    _record(ledger, TopicPermission(user, vhost, exchange, write, read))


def topic_permission_delete(administration: Administration, user: str, vhost: str, exchange: str | None) -> None:
    """Delete a user's topic permissions in a vhost: for one exchange, or (None) for all."""
    ledger = administration.ledger
    found = [
        topic
        for topic in ledger.topology.users.topic_permissions(user, vhost)
        if exchange is None or topic.exchange == exchange
    ]
    if not found:
        where = f"vhost '{vhost}'" if exchange is None else f"exchange '{exchange}' in vhost '{vhost}'"
        raise Refusal("not_found", f"user '{user}' has no topic permissions for {where}")
    for topic in found:
        ledger.record(topic.change_gone(), durable=True)


def topic_permission_list(administration: Administration, user: str | None, vhost: str | None) -> list[dict[str, Any]]:
    """Return the topic permissions of a user in a vhost (None: any), by vhost, exchange and user."""
    found = administration.ledger.topology.users.topic_permissions(user, vhost)
    return [asdict(topic) for topic in sorted(found, key=lambda each: (each.vhost, each.exchange, each.user))]


# Checks


def _record(ledger: Ledger, record: User | Permission | TopicPermission) -> None:
    ledger.record(record.change(), durable=True)


def _user(ledger: Ledger, name: str) -> User:
    check_user(ledger, name)
    user = ledger.topology.users.user(name)
    assert user is not None
    return user


def _check_hash(password_hash: str) -> None:
    try:
        passwords.check(password_hash)
    except ValueError as error:
        raise Refusal("invalid", str(error)) from None


def _known_tags(tags: list[Any]) -> list[str]:
    for tag in tags:
        if tag not in TAGS:
            raise Refusal("invalid", f"unknown tag {tag!r}; the tags are {', '.join(TAGS)}")
    return list(dict.fromkeys(tags))


def _check_patterns(*given: str) -> None:
    for text in given:
        try:
            pattern(text)
        except PatternError as error:
            raise Refusal("invalid", str(error)) from None
