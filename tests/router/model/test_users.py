"""Permissions as RabbitMQ decides on them."""

from __future__ import annotations

import pytest

from router.model.users import Right, TopicRight, Users


@pytest.fixture
def users() -> Users:
    users = Users()
    users.kinds["user"]("bob", "", ["impersonator"])
    users.kinds["permission"]("bob", "/", "", "^work-", "news")
    users.kinds["topic_permission"]("bob", "/", "t", "^{username}\\.{vhost}$", "")
    users.kinds["topic_permission"]("b.*", "/", "t", "^{username}$", "")
    return users


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
    """None at all leave everything open; a user's name is itself, not an expression."""
    assert users.may_use_topic(user, "/", exchange, right, key) is allowed


def test_an_expression_that_grows_too_long_allows_nothing(users: Users) -> None:
    users.kinds["topic_permission"]("u" * 255, "/", "t", "{username}" * 50, "")
    assert not users.may_use_topic("u" * 255, "/", "t", "write", "u")


def test_tags(users: Users) -> None:
    assert users.has_tag("bob", "impersonator")
    assert not users.has_tag("bob", "administrator")
    assert not users.has_tag("nobody", "administrator")
