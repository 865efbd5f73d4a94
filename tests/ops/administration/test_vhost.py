"""`penstock vhost`: each command changes the node and reports the change."""

from __future__ import annotations

import pytest

from ops.administration import vhost
from tests.ops.commanded import Commanded


def test_a_vhost_is_added_once_and_deleted(commanded: Commanded) -> None:
    assert commanded.run(vhost.app, "add", "eu") == "vhost 'eu' added\n"
    assert commanded.run(vhost.app, "add", "eu") == "vhost 'eu' exists already\n"
    assert commanded.node.router.topology.has_vhost("eu")
    assert commanded.run(vhost.app, "delete", "eu") == "vhost 'eu' deleted\n"
    assert not commanded.node.router.topology.has_vhost("eu")
    assert commanded.refusal(vhost.app, "delete", "eu") == "there is no vhost 'eu'"


@pytest.mark.parametrize(("answer", "deleted"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_vhost_with_queues_is_deleted_only_if_that_is_confirmed(
    commanded: Commanded, answer: str, deleted: bool
) -> None:
    commanded.node.declare("q")
    question = "Delete vhost '/' with 1 queue and all messages? [y/N]: "
    if deleted:
        assert commanded.run(vhost.app, "delete", "/", input=answer).startswith(question)
    else:
        refused = commanded.refusal(vhost.app, "delete", "/", input=answer)
        assert refused == "vhost '/' is not deleted; --yes does it without a question"
    assert commanded.node.router.topology.has_vhost("/") is not deleted


def test_who_says_yes_is_not_asked(commanded: Commanded) -> None:
    commanded.node.declare("q")
    assert commanded.run(vhost.app, "delete", "/", "--yes") == "vhost '/' deleted\n"


def test_the_list_counts_queues_and_exchanges(commanded: Commanded) -> None:
    commanded.run(vhost.app, "add", "eu")
    commanded.node.declare("q")
    exchanges = len(commanded.node.router.topology.exchanges_in("/"))
    assert commanded.rows(vhost.app, "list") == [["/", "1", str(exchanges)], ["eu", "0", str(exchanges)]]
    assert commanded.json(vhost.app, "list")[0] == {"name": "/", "queues": 1, "exchanges": exchanges}


def test_the_limits_are_those_of_vhosts(commanded: Commanded) -> None:
    assert commanded.run(vhost.app, "set-limits", "/", '{"max-queues": 7}') == "limits of vhost '/' set\n"
    (row,) = [row for row in commanded.json(vhost.app, "list-limits") if row["limit"] == "max-queues"]
    assert (row["name"], row["number"], row["set"]) == ("/", 7, "yes")
