"""`penstock permission`: the permissions of a user in a vhost are set, listed and revoked."""

from __future__ import annotations

from ops.administration import permission
from tests.ops.commanded import Commanded


def test_each_pattern_is_for_its_own_permission(commanded: Commanded) -> None:
    commanded.node.add_vhost("eu")
    said = commanded.run(permission.app, "set", "guest", "^c", "^w", "", "--vhost", "eu")
    assert said == "permissions of user 'guest' in vhost 'eu' set\n"
    (found,) = commanded.json(permission.app, "list", "--vhost", "eu")
    assert found == {"user": "guest", "vhost": "eu", "configure": "^c", "write": "^w", "read": ""}


def test_the_vhost_is_the_default_one_unless_another_is_named(commanded: Commanded) -> None:
    commanded.node.add_vhost("eu")
    assert commanded.run(permission.app, "delete", "guest") == "permissions of user 'guest' in vhost '/' deleted\n"
    assert commanded.rows(permission.app, "list") == [["eu", "guest", ".*", ".*", ".*"]]
    assert commanded.refusal(permission.app, "delete", "guest") == "user 'guest' has no permissions in vhost '/'"


def test_the_list_is_of_one_user_or_vhost_if_one_is_named(commanded: Commanded) -> None:
    commanded.node.add_vhost("eu")
    commanded.node.add_user("ann", write="^a", vhost="eu")

    def listed(*words: str) -> list[tuple[str, str]]:
        return [(each["vhost"], each["user"]) for each in commanded.json(permission.app, "list", *words)]

    assert sorted(listed()) == [("/", "guest"), ("eu", "ann"), ("eu", "guest")]
    assert listed("--user", "ann") == [("eu", "ann")]
    assert listed("--vhost", "/") == [("/", "guest")]
    assert listed("--user", "ann", "--vhost", "/") == []


def test_a_pattern_that_is_no_regular_expression_is_refused(commanded: Commanded) -> None:
    reason = commanded.refusal(permission.app, "set", "guest", "(", "", "")
    assert "(" in reason and "\n" not in reason
