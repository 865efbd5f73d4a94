"""`penstock channel`: which are listed, and in which mode."""

from __future__ import annotations

from ops.cli import app
from tests.ops.commanded import Commanded
from tests.simulator.joined.node import open_channel


def test_channels_are_listed_all_or_some(commanded: Commanded) -> None:
    node = commanded.node
    node.add_user("bob")
    node.permit("bob", ".*", "/")
    node.declare("q")
    node.settle()
    guest, bob = open_channel(node), open_channel(node, user="bob")
    guest.call("confirm.select", 1)
    guest.call("channel.open", 2)
    guest.call("tx.select", 2)
    bob.call("basic.qos", 1, prefetch_count=5)
    bob.call("basic.qos", 1, prefetch_count=9, global_=True)
    bob.call("basic.consume", 1, queue="q", consumer_tag="reader")
    guest.publish(1, b"m", routing_key="q")
    node.settle()
    found = commanded.json(app, "channel", "list")
    assert [(each["user"], each["channel"], each["mode"]) for each in found] == [
        ("guest", 1, "confirm"), ("guest", 2, "transactional"), ("bob", 1, "plain"),
    ]  # fmt: skip
    (row,) = commanded.rows(app, "channel", "list", "--user", "bob")
    assert row[1:] == ["1", "bob", "/", "plain", "1", "1", "5/9", "no"]
    rows = commanded.rows(app, "channel", "list", "--connection", found[0]["connection"], "--vhost", "/")
    assert [row[7:] for row in rows] == [["unlimited", "no"]] * 2
    assert commanded.run(app, "channel", "list", "--user", "nobody") == "no channels\n"
