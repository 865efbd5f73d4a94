"""Administration of users and permissions: records, followers, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control import passwords
from penstock.control.control import Refusal
from router.commands.accounts import ensure_first_user
from router.model.topology import Topology
from tests.router.making import Asked, rabbit_hash

HASH = rabbit_hash("secret")
NO_HASH = "the password hash is neither argon2 nor RabbitMQ's salted SHA-256 or SHA-512"
THE_TAGS = "the tags are administrator, monitoring, policymaker, management, impersonator"
ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def bob(asked: Asked) -> str:
    asked.command("user_add", name="bob", password_hash=HASH, tags=["monitoring"])
    return "bob"


def test_a_user(asked: Asked, bob: str) -> None:
    user = asked.topology.users.user(bob)
    assert user is not None and (user.password_hash, user.tags) == (HASH, ["monitoring"])
    assert asked.topology.users.has_tag(bob, "monitoring") and not asked.topology.users.has_tag(bob, "administrator")
    assert all(step.durable for step in asked.recorded[-1:])
    assert {"name": bob, "tags": ["monitoring"], "password": True, "vhosts": []} in asked.command("user_list")


def test_changing_one_leaves_the_rest(asked: Asked, bob: str) -> None:
    other = rabbit_hash("other")
    asked.command("user_set", name=bob, password_hash=other, tags=None)
    asked.command("user_set", name=bob, password_hash=None, tags=["management", "impersonator", "management"])
    user = asked.topology.users.user(bob)
    assert user is not None and (user.password_hash, user.tags) == (other, ["management", "impersonator"])


def test_a_deleted_user_takes_the_permissions_along(asked: Asked) -> None:
    before = list(asked.topology.changes())
    asked.command("user_add", name="bob", password_hash=HASH, tags=[])
    asked.command("permission_set", user="bob", vhost="/", **ALL)
    asked.command("topic_permission_set", user="bob", vhost="/", exchange="amq.topic", write="a", read="b")
    asked.command("user_delete", name="bob")
    assert list(asked.topology.changes()) == before


def test_a_deleted_vhost_takes_the_permissions_along(asked: Asked) -> None:
    before = list(asked.topology.changes())
    asked.command("vhost_add", name="v")
    asked.command("permission_set", user="guest", vhost="v", **ALL)
    asked.command("topic_permission_set", user="guest", vhost="v", exchange="x", write="a", read="b")
    asked.command("vhost_delete", name="v")
    assert list(asked.topology.changes()) == before


def test_followers_see_the_same(asked: Asked, bob: str) -> None:
    replica = Topology(1, asked.topology.changes())
    recorded = len(asked.recorded)
    generation = replica.users.generation
    asked.command("permission_set", user=bob, vhost="/", configure="", write="^w", read="r$")
    asked.command("topic_permission_set", user=bob, vhost="/", exchange="x", write="a", read="b")
    asked.command("permission_set", user=bob, vhost="/", configure="c", write="^w", read="r$")
    asked.command("topic_permission_delete", user=bob, vhost="/", exchange=None)
    for step in asked.recorded[recorded:]:
        replica.apply(step.change)
    assert list(replica.changes()) == list(asked.topology.changes())
    assert replica.users.generation > generation


def test_lists(asked: Asked, bob: str) -> None:
    asked.command("permission_set", user=bob, vhost="/", configure="", write="^w", read="r$")
    row = {"user": bob, "vhost": "/", "configure": "", "write": "^w", "read": "r$"}
    assert asked.command("permission_list", user=bob, vhost=None) == [row]
    assert row in asked.command("permission_list", user=None, vhost="/")
    assert asked.command("permission_list", user=None, vhost="elsewhere") == []
    asked.command("topic_permission_set", user=bob, vhost="/", exchange="x", write="a", read="b")
    topic = {"user": bob, "vhost": "/", "exchange": "x", "write": "a", "read": "b"}
    assert asked.command("topic_permission_list", user=None, vhost=None) == [topic]
    asked.command("topic_permission_delete", user=bob, vhost="/", exchange="x")
    assert asked.command("topic_permission_list", user=bob, vhost="/") == []


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "text"),
    [
        ("user_add", {"name": "guest"}, "exists", "there is a user 'guest' already"),
        ("user_add", {"name": ""}, "invalid", "the user name cannot be empty"),
        ("user_add", {"password_hash": "secret"}, "invalid", NO_HASH),
        ("user_add", {"tags": ["boss"]}, "invalid", f"unknown tag 'boss'; {THE_TAGS}"),
        ("user_add", {"tags": [1]}, "invalid", f"unknown tag 1; {THE_TAGS}"),
        ("user_add", {"tags": "x"}, "invalid", "user_add: tags is of type str"),
        ("user_set", {"name": "nobody"}, "not_found", "there is no user 'nobody'"),
        ("user_delete", {"name": "nobody"}, "not_found", "there is no user 'nobody'"),
        ("permission_set", {"user": "nobody"}, "not_found", "there is no user 'nobody'"),
        ("permission_set", {"vhost": "nowhere"}, "not_found", "there is no vhost 'nowhere'"),
        ("permission_set", {"write": "("}, "invalid", "'(' is not a regular expression: missing ): ("),
        ("permission_delete", {"user": "nobody"}, "not_found", "user 'nobody' has no permissions in vhost '/'"),
        ("topic_permission_set", {"exchange": ""}, "invalid", "the exchange name cannot be empty"),
        ("topic_permission_set", {"read": "[a"}, "invalid", "'[a' is not a regular expression: missing ]: [a"),
        ("topic_permission_delete", {}, "not_found",
         "user 'guest' has no topic permissions for exchange 'x' in vhost '/'"),
    ],
)  # fmt: skip
def test_refusals_change_nothing(asked: Asked, name: str, arguments: dict[str, Any], kind: str, text: str) -> None:
    usual: dict[str, dict[str, Any]] = {
        "user_add": {"name": "bob", "password_hash": HASH, "tags": []},
        "user_set": {"password_hash": None, "tags": []},
        "user_delete": {},
        "permission_set": {"user": "guest", "vhost": "/", **ALL},
        "permission_delete": {"vhost": "/"},
        "topic_permission_set": {"user": "guest", "vhost": "/", "exchange": "x", "write": "", "read": ""},
        "topic_permission_delete": {"user": "guest", "vhost": "/", "exchange": "x"},
    }
    before = len(asked.recorded)
    with pytest.raises(Refusal) as refused:
        asked.command(name, **{**usual[name], **arguments})
    assert (refused.value.kind, str(refused.value)) == (kind, text)
    assert len(asked.recorded) == before


def test_the_first_user_is_made_and_may_do_everything(asked: Asked) -> None:
    ensure_first_user(asked.authority.ledger, "app", "secret")
    user = asked.topology.users.user("app")
    assert user is not None and user.tags == ["administrator"] and passwords.verify(user.password_hash, "secret")
    assert asked.command("permission_list", user="app", vhost=None) == [{"user": "app", "vhost": "/", **ALL}]


def test_a_first_user_that_exists_gets_the_password_alone(asked: Asked, bob: str) -> None:
    asked.authority.ledger.take_steps()
    ensure_first_user(asked.authority.ledger, bob, "secret")
    assert asked.authority.ledger.take_steps() == []
    ensure_first_user(asked.authority.ledger, bob, "another")
    user = asked.topology.users.user(bob)
    assert user is not None and user.tags == ["monitoring"] and passwords.verify(user.password_hash, "another")
    assert asked.command("permission_list", user=bob, vhost=None) == []


def test_a_first_user_is_made_without_the_vhost(asked: Asked) -> None:
    asked.command("vhost_delete", name="/")
    ensure_first_user(asked.authority.ledger, "app", "secret")
    assert asked.topology.users.user("app") is not None
    assert asked.command("permission_list", user="app", vhost=None) == []
