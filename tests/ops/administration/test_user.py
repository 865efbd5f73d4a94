"""`penstock user`: users, their passwords and tags; a password does not reach the node, only its hash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ops.administration import user
from penstock.control import passwords
from router.model.users import User
from tests.ops.commanded import Commanded
from tests.router.making import rabbit_hash

BOB = {"name": "bob", "password_hash": rabbit_hash("x").removeprefix("sha256:"), "tags": "monitoring"}


def known(commanded: Commanded, name: str) -> User:
    found = commanded.node.router.topology.users.user(name)
    assert found is not None, name
    return found


def test_a_user_is_added_with_a_password_of_standard_input_and_deleted(commanded: Commanded) -> None:
    said = commanded.run(user.app, "add", "bob", "--tag", "monitoring", "--tag", "management", input="a b \r\nmore\n")
    assert said == "user 'bob' added\n"
    bob = known(commanded, "bob")
    assert bob.tags == ["monitoring", "management"]
    assert passwords.is_slow(bob.password_hash) and passwords.verify(bob.password_hash, "a b ")
    assert commanded.run(user.app, "delete", "bob") == "user 'bob' deleted\n"
    assert commanded.refusal(user.app, "delete", "bob") == "there is no user 'bob'"


@pytest.mark.parametrize("given", ["", "\n"])
@pytest.mark.parametrize("words", [["add", "bob"], ["password", "guest"]], ids=" ".join)
def test_an_empty_password_is_refused(commanded: Commanded, words: list[str], given: str) -> None:
    before = known(commanded, "guest")
    reason = commanded.refusal(user.app, *words, input=given)
    assert reason == "a password is expected on standard input, and it cannot be empty"
    assert known(commanded, "guest") == before
    assert commanded.node.router.topology.users.user("bob") is None


def test_a_password_is_changed_or_removed_and_the_tags_stay(commanded: Commanded) -> None:
    assert commanded.run(user.app, "password", "guest", input="new\n") == "password of user 'guest' set\n"
    assert passwords.verify(known(commanded, "guest").password_hash, "new")
    assert commanded.run(user.app, "password", "guest", "--none") == "password of user 'guest' removed\n"
    assert known(commanded, "guest") == User("guest", passwords.NONE, ["administrator"])


@pytest.mark.parametrize(
    ("given", "tags"),
    [
        (["management", "policymaker"], ["management", "policymaker"]),
        (["management,policymaker"], ["management", "policymaker"]),
        (["management, policymaker"], ["management", "policymaker"]),
        (["none"], []),
    ],
)
def test_the_given_tags_replace_the_others(commanded: Commanded, given: list[str], tags: list[str]) -> None:
    before = known(commanded, "guest").password_hash
    assert commanded.run(user.app, "tag", "guest", *given) == "tags of user 'guest' set\n"
    assert known(commanded, "guest") == User("guest", before, tags)


def test_the_list_says_whether_there_is_a_password_but_not_which(commanded: Commanded) -> None:
    commanded.run(user.app, "password", "guest", "--none")
    commanded.node.add_user("ann")
    shown = commanded.json(user.app, "list")
    assert [each["name"] for each in shown] == ["ann", "guest"]
    assert shown[0]["password"] != shown[1]["password"]
    assert known(commanded, "ann").password_hash not in json.dumps(shown)


def test_definitions_are_imported_and_counted_or_nothing_is(commanded: Commanded, tmp_path: Path) -> None:
    right = {"user": "bob", "vhost": "eu", "configure": "", "write": "", "read": ".*"}
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"users": [BOB], "vhosts": [{"name": "eu"}], "permissions": [right]}))
    said = commanded.run(user.app, "import", str(file))
    assert said == "imported 1 vhost, 1 user, 1 permission\n"
    assert known(commanded, "bob") == User("bob", rabbit_hash("x"), ["monitoring"])
    file.write_text(json.dumps({"users": [{**BOB, "name": "eve"}], "permissions": [{**right, "vhost": "us"}]}))
    assert commanded.refusal(user.app, "import", str(file)) == "1 refused, so nothing is imported"
    assert commanded.node.router.topology.users.user("eve") is None


def test_nobody_guesses_at_first(commanded: Commanded) -> None:
    assert commanded.json(user.app, "guesses") == []


def test_the_limits_are_those_of_users(commanded: Commanded) -> None:
    said = commanded.run(user.app, "set-limits", "guest", '{"max-channels": 7}')
    assert said == "limits of user 'guest' set\n"
    (row,) = [row for row in commanded.json(user.app, "list-limits") if row["limit"] == "max-channels"]
    assert (row["name"], row["number"], row["set"]) == ("guest", 7, "yes")
