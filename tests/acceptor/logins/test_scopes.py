"""Scopes as permissions, by RabbitMQ's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.gates.rights import Rights
from acceptor.logins.scopes import SCOPES_MOST, rights_of


def by(*scopes: str) -> Rights:
    return rights_of("bob", scopes, "penstock.")


@pytest.mark.parametrize(
    ("scope", "vhost", "name", "may"),
    [
        ("penstock.read:*/*", "/", "q", True),
        ("penstock.read:%2F/*", "/", "q", True),
        ("penstock.read:%2F/*", "v", "q", False),
        ("penstock.read:v/orders-*", "v", "orders-1", True),
        ("penstock.read:v/orders-*", "v", "x-orders-1", False),
        ("penstock.read:v/*-in-*", "v", "a-in-b", True),
        ("penstock.read:v/a.b", "v", "axb", False),
        ("penstock.read:v/q%2F1", "v", "q/1", True),
        ("penstock.read:v/q\n*", "v", "q\nnext", True),
        ("penstock.write:v/q", "v", "q", False),
        ("read:v/q", "v", "q", False),
        ("other.read:v/q", "v", "q", False),
        ("penstock.read:v", "v", "q", False),
        ("penstock.read:v/q/k/more", "v", "q", False),
        ("penstock.read", "v", "q", False),
        ("penstock.", "v", "q", False),
        (f"penstock.read:v/{'a' * 2000}", "v", "a" * 2000, False),
    ],
)
def test_a_scope_allows_what_it_names(scope: str, vhost: str, name: str, may: bool) -> None:
    assert by(scope).may(vhost, "read", "queue", name) is may
    assert by(scope).may(vhost, "configure", "queue", name) is False


def test_a_vhost_is_open_to_any_scope_for_it() -> None:
    rights = by("penstock.write:v/x", "penstock.tag:administrator")
    assert rights.may_open("v") and not rights.may_open("/")


def test_routing_keys_count_for_topic_exchanges() -> None:
    rights = by("penstock.write:v/topics/eu.*", "penstock.read:v/topics")
    assert rights.may_use_topic("v", "topics", "write", "eu.fr") and rights.may("v", "write", "exchange", "topics")
    assert not rights.may_use_topic("v", "topics", "write", "us.ny")
    assert rights.may_use_topic("v", "topics", "read", "anything")


def test_tags() -> None:
    rights = by("penstock.tag:impersonator", "tag:administrator")
    assert rights.has_tag("impersonator") and not rights.has_tag("administrator")


def test_equal_scopes_are_equal_rights_in_any_order() -> None:
    one, other = by("penstock.read:a/*", "penstock.write:b/*"), by("penstock.write:b/*", "penstock.read:a/*", "x")
    assert one == other and hash(one) == hash(other)
    assert one != by("penstock.read:a/*") and one != rights_of("eve", ["penstock.read:a/*"], "penstock.")


def test_more_scopes_than_are_looked_at_do_no_harm() -> None:
    rights = by(*(f"penstock.read:v/{number:06}" for number in range(SCOPES_MOST + 10)))
    assert rights.may("v", "read", "queue", "000000") and not rights.may("v", "read", "queue", f"{SCOPES_MOST + 5:06}")


@given(st.lists(st.text()), st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_read(scopes: list[str], vhost: str, name: str) -> None:
    rights = rights_of("bob", scopes, "")
    rights.may_open(vhost)
    rights.may(vhost, "read", "queue", name)
