"""`penstock consumer`: which are listed."""

from __future__ import annotations

from ops.cli import app
from tests.ops.commanded import Commanded
from tests.simulator.joined.node import open_channel


def test_consumers_are_listed_all_or_some(commanded: Commanded) -> None:
    node = commanded.node
    node.add_user("bob")
    node.permit("bob", ".*", "/")
    for queue in ("orders", "mails"):
        node.declare(queue)
    node.settle()
    guest, bob = open_channel(node), open_channel(node, user="bob")
    guest.call("basic.qos", 1, prefetch_count=5)
    guest.call("basic.consume", 1, queue="orders", consumer_tag="worker")
    bob.call("basic.consume", 1, queue="mails", consumer_tag="reader", no_ack=True)
    node.settle()
    found = commanded.json(app, "consumer", "list")
    assert sorted((each["user"], each["queue"], each["tag"]) for each in found) == [
        ("bob", "mails", "reader"), ("guest", "orders", "worker"),
    ]  # fmt: skip
    (row,) = commanded.rows(app, "consumer", "list", "--queue", "orders", "--vhost", "/")
    assert row[2:] == ["guest", "/", "orders", "worker", "yes", "5", "0"]
    (row,) = commanded.rows(app, "consumer", "list", "--user", "bob")
    assert row[2:] == ["bob", "/", "mails", "reader", "no", "unlimited", "0"]
    assert commanded.run(app, "consumer", "list", "--queue", "none") == "no consumers\n"
