"""Permissions, decided as in RabbitMQ."""

from __future__ import annotations

import pytest

from router.model.record_kind import Change
from router.model.topology import Topology
from router.model.users import Right, TopicRight, Users


@pytest.fixture
def topology() -> Topology:
    changes: list[Change] = [
        ["user", "bob", "", ["impersonator"]],
        ["permission", "bob", "/", "", "^work-", "news"],
        ["topic_permission", "bob", "/", "t", "^{username}\\.{vhost}$", ""],
        ["topic_permission", "b.*", "/", "t", "^{username}$", ""],
    ]
    return Topology(1, changes)


@pytest.fixture
def users(topology: Topology) -> Users:
    return topology.users


@pytest.mark.parametrize(
    ("user", "vhost", "right", "name", "allowed"),
    [
        ("bob", "/", "configure", "", False),
        ("bob", "/", "configure", "anything", False),
        ("bob", "/", "write", "work-1", True),
        ("bob", "/", "write", "my-work-1", False),
        ("bob", "/", "read", "good-news-1", True),
        ("bob", "v", "read", "news", False),
        ("eve", "/", "read", "news", False),
        ("bob", "/", "read", "news-\udcff", True),
    ],
)
def test_permissions(users: Users, user: str, vhost: str, right: Right, name: str, allowed: bool) -> None:
    assert users.may(user, vhost, right, name) is allowed


@pytest.mark.parametrize(
    ("user", "exchange", "right", "key", "allowed"),
    [
        ("bob", "t", "write", "bob./", True),
        ("bob", "t", "write", "eve./", False),
        ("bob", "t", "read", "anything", False),
        ("bob", "other", "read", "anything", True),
        ("eve", "t", "write", "anything", True),
        ("b.*", "t", "write", "b.*", True),
        ("b.*", "t", "write", "bob", False),
    ],
)
def test_topic_permissions(users: Users, user: str, exchange: str, right: TopicRight, key: str, allowed: bool) -> None:
    """Without topic permissions everything is allowed; a user's name is literal, not an expression."""
    assert users.may_use_topic(user, "/", exchange, right, key) is allowed


def test_an_expression_that_grows_too_long_allows_nothing(topology: Topology) -> None:
    topology.apply(["topic_permission", "u" * 255, "/", "t", "{username}" * 50, ""])
    assert not topology.users.may_use_topic("u" * 255, "/", "t", "write", "u")


def test_tags(users: Users) -> None:
    assert users.has_tag("bob", "impersonator")
    assert not users.has_tag("bob", "administrator")
    assert not users.has_tag("nobody", "administrator")


def test_every_change_of_users_and_permissions_makes_another_generation(topology: Topology) -> None:
    seen = [topology.users.generation]
    for change in (
        ["user", "bob", "", []],
        ["permission_gone", "bob", "/"],
        ["topic_permission_gone", "bob", "/", "t"],
        ["user_gone", "bob"],
    ):
        topology.apply(change)
        seen.append(topology.users.generation)
    topology.apply(["vhost", "/"])
    assert topology.users.generation == seen[-1]
    topology.reset()
    seen.append(topology.users.generation)
    assert seen == sorted(set(seen))
