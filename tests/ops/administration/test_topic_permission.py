"""`penstock topic-permission`: limits on a user's routing keys per topic exchange, set, listed and lifted."""

from __future__ import annotations

from ops.administration import topic_permission
from tests.ops.commanded import Commanded

APP = topic_permission.app


def test_each_pattern_is_for_its_own_permission(commanded: Commanded) -> None:
    said = commanded.run(APP, "set", "guest", "amq.topic", "^{username}", "^r")
    assert said == "topic permissions of user 'guest' for exchange 'amq.topic' in vhost '/' set\n"
    assert commanded.rows(APP, "list") == [["/", "guest", "amq.topic", "^{username}", "^r"]]


def test_they_are_deleted_for_one_exchange_or_for_all_of_a_vhost(commanded: Commanded) -> None:
    commanded.node.add_vhost("eu")
    for exchange in ("a", "b", "c"):
        commanded.run(APP, "set", "guest", exchange, "^w", "^r")
    commanded.run(APP, "set", "guest", "a", "^w", "^r", "--vhost", "eu")
    commanded.run(APP, "delete", "guest", "a")
    assert [each["exchange"] for each in commanded.json(APP, "list", "--vhost", "/")] == ["b", "c"]
    assert commanded.run(APP, "delete", "guest") == "topic permissions of user 'guest' in vhost '/' deleted\n"
    assert [(each["vhost"], each["exchange"]) for each in commanded.json(APP, "list")] == [("eu", "a")]


def test_the_list_is_of_one_user_if_one_is_named(commanded: Commanded) -> None:
    commanded.node.add_user("ann")
    for user in ("ann", "guest"):
        commanded.run(APP, "set", user, "a", "^w", "^r")
    assert [each["user"] for each in commanded.json(APP, "list", "--user", "ann")] == ["ann"]


def test_a_user_who_is_not_there_is_named(commanded: Commanded) -> None:
    assert "user 'bob'" in commanded.refusal(APP, "set", "bob", "a", "^w", "^r")
