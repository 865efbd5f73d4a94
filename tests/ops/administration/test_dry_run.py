"""The channels that a policy would stop: their routes lead to a queue, or come under a limit, that would be full."""

from __future__ import annotations

from typing import Any

import pytest

from ops.administration.dry_run import would_stop
from ops.errors import CommandError
from tests.ops.commanded import Commanded
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import open_channel


def trial(commanded: Commanded, apply_to: str, pattern: str, vhost: str = "/", **definition: Any) -> Any:
    """Return the marks that a policy would exceed, the client properties of the channels that it would stop, and the
    queues that would not hold all their producers.
    """
    policy = {
        "vhost": vhost, "operator": False, "name": "trial", "pattern": pattern, "apply_to": apply_to, "priority": 0,
        "definition": {key.replace("_", "-"): value for key, value in definition.items()},
    }  # fmt: skip
    reached, stopped, ungranted = would_stop(commanded.data, policy)
    return reached, [(each["client"], each["channel"], each["reason"]) for each in stopped], ungranted


def publisher(commanded: Commanded, product: str, count: int, exchange: str, key: str) -> Client:
    client = open_channel(commanded.node, properties={"product": product})
    for _ in range(count):
        client.publish(1, b"x", exchange, key)
    commanded.node.settle()
    return client


def test_channels_that_publish_to_a_full_queue_are_stopped_and_others_are_not(commanded: Commanded) -> None:
    commanded.node.declare("full", durable=True)
    commanded.node.declare("other", durable=True)
    publisher(commanded, "one", 5, "", "full")
    publisher(commanded, "two", 5, "", "other")
    reached, stopped, ungranted = trial(commanded, "queues", "^full$", flow_stop_count=4)
    (reason,) = reached
    assert reason == "queue 'full' in vhost '/': 5 of 4 messages"
    assert (stopped, ungranted) == ([("one", 1, reason)], [])
    assert trial(commanded, "queues", "^full$", flow_stop_count=5) == ([], [], [])
    assert commanded.node.command("policy_list", vhost=None) == [], "nothing is set"


def test_a_queue_would_not_hold_publishes_through_a_binding_that_does_not_grant_it(commanded: Commanded) -> None:
    commanded.node.add_user("mallory", write="^mal")
    commanded.node.declare("mal", durable=True)
    commanded.node.bind("news", "mal", user="mallory")
    publisher(commanded, "by binding", 5, "news", "")
    publisher(commanded, "by name", 5, "", "mal")
    _, stopped, ungranted = trial(commanded, "queues", "^mal$", flow_stop_count=4)
    assert [client for client, _, _ in stopped] == ["by name"]
    why = "'mallory' may not write to exchange 'news', and the policy does not grant it"
    assert ungranted == [f"queue 'mal' in vhost '/' would not hold publishes through exchange 'news': {why}"]
    _, stopped, ungranted = trial(commanded, "queues", "^mal$", flow_stop_count=4, essential=True)
    assert ({client for client, _, _ in stopped}, ungranted) == ({"by binding", "by name"}, [])


@pytest.mark.parametrize(
    ("apply_to", "pattern", "limit", "vhost"),
    [
        ("exchanges", "^news$", "exchange 'news' in vhost '/'", "/"),
        ("users", "^guest$", "user 'guest' in vhost '/'", "/"),
        ("vhosts", "^/$", "vhost '/'", ""),
    ],
)
def test_a_sum_over_queues_stops_those_under_the_limit(
    commanded: Commanded, apply_to: str, pattern: str, limit: str, vhost: str
) -> None:
    commanded.node.add_vhost("elsewhere")
    for name in ("a", "b"):
        commanded.node.declare(name, durable=True)
    commanded.node.bind("news", "a", "b")
    publisher(commanded, "one", 5, "news", "")
    reached, stopped, _ = trial(commanded, apply_to, pattern, vhost, sum_stop_count=9)
    assert reached == [f"{limit}, sum of 2 queues: 10 of 9 messages"]
    assert stopped == [("one", 1, reached[0])]
    assert trial(commanded, apply_to, pattern, vhost, sum_stop_count=10) == ([], [], [])


def test_bytes_and_messages_are_given_each_if_they_have_a_mark(commanded: Commanded) -> None:
    commanded.node.declare("q", durable=True)
    publisher(commanded, "one", 5, "", "q")
    size = commanded.node.gauges.depth_bytes(commanded.node.queue("q").slot)
    (both,), _, _ = trial(commanded, "queues", "q", flow_stop_count=9, flow_stop_size=size - 1)
    assert both == f"queue 'q' in vhost '/': 5 of 9 messages; {size} of {size - 1} bytes"


def test_a_policy_that_cannot_be_is_refused(commanded: Commanded) -> None:
    with pytest.raises(CommandError, match="there is no vhost 'none'"):
        trial(commanded, "queues", "q", "none", flow_stop_count=4)
