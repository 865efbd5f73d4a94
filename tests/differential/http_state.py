"""One state, made in a broker by its management API and by AMQP, for comparisons of what the API answers about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika

from tests.management import PASSWORD, RIGHTS, Api
from tests.raw import Address
from tests.waiting import wait_for

TAGS = {
    "manager": "management", "maker": "policymaker", "monitor": "monitoring", "admin": "administrator", "plain": "",
}  # fmt: skip
"""The users of the state, by their tags. All but `outsider` may open the vhost."""
OUTSIDER = "outsider"
MESSAGES = 20


def administer(api: Api) -> list[tuple[str, int]]:
    """Make vhost, users, permissions, policies and limits. Return the paths with the statuses of the answers."""
    steps: list[tuple[str, Any]] = [
        ("vhosts/shop", {}),
        ("vhosts/other", None),
        ("permissions/shop/guest", RIGHTS),
        ("permissions/shop/guest", RIGHTS),
        *((f"users/{name}", {"password": PASSWORD, "tags": tags}) for name, tags in TAGS.items()),
        (f"users/{OUTSIDER}", {"password": PASSWORD, "tags": "management"}),
        *((f"permissions/shop/{name}", RIGHTS) for name in TAGS),
        ("topic-permissions/shop/manager", {"exchange": "amq.topic", "write": "^a", "read": ".*"}),
        (
            "policies/shop/short",
            {"pattern": "^orders", "definition": {"max-length": 1000, "message-ttl": 3600000}, "priority": 3,
             "apply-to": "queues"},
        ),
        ("policies/shop/wrong", {"pattern": "(", "definition": {"max-length": 1000}}),
        ("policies/shop/wrong", {"pattern": ".*", "definition": {"max-length": "many"}}),
        ("operator-policies/shop/cap", {"pattern": ".*", "definition": {"max-length": 5000}, "apply-to": "queues"}),
        ("vhost-limits/shop/max-queues", {"value": 1000}),
        ("user-limits/manager/max-connections", {"value": 10}),
        ("permissions/nowhere/guest", RIGHTS),
        ("permissions/shop/nobody", RIGHTS),
        ("users/half", {"tags": "management"}),
        ("users/half", {"password": "x"}),
    ]  # fmt: skip
    return [(path, api.call("PUT", path, body).status_code) for path, body in steps]


@contextmanager
def used(api: Api, amqp: Address) -> Iterator[None]:
    """Have queues, exchanges, bindings, messages and a consumer, until the connection is closed."""
    parameters = pika.ConnectionParameters(
        amqp.host, amqp.port, "shop", client_properties={"connection_name": "the shop"}
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("orders.in", "topic", durable=True, arguments={"alternate-exchange": "orders.other"})
        channel.exchange_declare("orders.other", "fanout", durable=True)
        channel.exchange_declare("a/b c", "direct", auto_delete=True, arguments={"x-own": [1, "two"]})
        channel.exchange_bind("orders.other", "orders.in", "audit.#")
        channel.queue_declare("orders", durable=True, arguments={"x-max-priority": 5, "x-own": {"mine": True}})
        channel.queue_declare("spare/one", auto_delete=True)
        channel.queue_declare("mine", exclusive=True)
        channel.queue_bind("orders", "orders.in", "order.*")
        channel.queue_bind("orders", "orders.in", "order.*", {"x": 1})
        channel.queue_bind("spare/one", "amq.headers", "", {"a": "b", "x-match": "any"})
        channel.queue_bind("spare/one", "a/b c", "")
        for _ in range(MESSAGES):
            channel.basic_publish("orders.in", "order.new", b"x" * 100, pika.BasicProperties(delivery_mode=2))
        consuming = connection.channel()
        consuming.basic_qos(prefetch_count=5)
        consuming.basic_consume("orders", lambda *_: None, consumer_tag="worker", arguments={"x-priority": 1})
        connection.process_data_events(1)

        def counted() -> bool:
            connection.process_data_events(0)
            return _is_counted(api)

        wait_for(counted, what="the API to have counted", interval=0.2)
        yield


def _is_counted(api: Api) -> bool:
    """Whether the API shows all of it: RabbitMQ's collects numbers now and then."""
    orders = api.get("queues/shop/orders")
    channels = api.get("channels")
    return (
        orders.get("messages_unacknowledged") == 5
        and orders.get("messages") == MESSAGES
        and len(orders.get("consumer_details", ())) == 1
        and sorted(each.get("messages_unacknowledged", -1) for each in channels) == [0, 5]
        and all("client_properties" in each for each in api.get("connections"))
        and all("messages" in each for each in api.get("queues/shop"))
        and api.get("overview")["object_totals"]["consumers"] == 1
        and api.get("overview")["queue_totals"].get("messages_unacknowledged") == 5
    )
