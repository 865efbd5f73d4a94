"""Connections: their fields, and how they are closed."""

from __future__ import annotations

from urllib.parse import quote

import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from tests.console.api.conftest import Connect
from tests.management import PASSWORD, Api
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


def closed_with(connection: BlockingConnection) -> str:
    """Return the text with which the node has closed a connection."""

    def closed() -> str | None:
        try:
            connection.process_data_events(0)
        except pika.exceptions.ConnectionClosedByBroker as error:
            return f"{error.reply_code} {error.reply_text}"
        return None

    return wait_for(closed)


def test_a_connection_says_who_it_is(api: Api, vhost: str, connect: Connect) -> None:
    connection = connect("the shop")
    connection.channel(), connection.channel()
    (found,) = wait_for(lambda: [each for each in api.get(f"vhosts/{vhost}/connections") if each["channels"] == 2])
    assert found["client_properties"]["product"] == "Pika Python Client Library"
    assert found["client_properties"]["capabilities"]["basic.nack"] is True
    assert (found["user_provided_name"], found["user"], found["vhost"]) == ("the shop", "guest", vhost)
    assert found["state"] == "running" and found["frame_max"] > 0 and found["channel_max"] > 0
    id = found["flow"]["connection"]
    for name in (found["name"], id):
        assert api.get(f"connections/{quote(name, safe='')}")["name"] == found["name"]
    channels = api.get(f"connections/{quote(found['name'], safe='')}/channels")
    assert [each["number"] for each in channels] == [1, 2]
    assert {each["name"] for each in api.get("connections?page=1")["items"]} >= {found["name"]}
    assert api.get("connections/username/nobody") == []


def test_a_connection_counts_what_its_socket_brings_and_takes(api: Api, vhost: str, connect: Connect) -> None:
    connection = connect()
    (before,) = api.get(f"vhosts/{vhost}/connections")
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", bytes(10_000))
    body = wait_for(lambda: channel.basic_get("q", auto_ack=True)[2])
    (after,) = api.get(f"vhosts/{vhost}/connections")
    assert len(body) == 10_000
    for name in ("recv_oct", "send_oct"):
        assert after[name] - before[name] > 10_000 and after[f"{name}_details"]["rate"] > 0.0
    assert all(after[name] > before[name] > 0 for name in ("recv_cnt", "send_cnt"))


def test_a_connection_is_closed_with_a_reason(api: Api, vhost: str, connect: Connect) -> None:
    first, second = connect("first"), connect("second")
    names = {each["user_provided_name"]: each["name"] for each in api.get(f"vhosts/{vhost}/connections")}
    path = f"connections/{quote(names['first'], safe='')}"
    assert api.call("DELETE", path, **{"X-Reason": "to make room"}).status_code == 204
    assert closed_with(first) == "320 CONNECTION_FORCED - to make room"
    assert [each["user_provided_name"] for each in api.get(f"vhosts/{vhost}/connections")] == ["second"]
    assert api.status("DELETE", path) == 404
    second.process_data_events(0)


def test_a_user_closes_its_own_connections_only(api: Api, vhost: str, connect: Connect) -> None:
    api.make_user("owner", "management", vhost)
    api.make_user("watcher", "monitoring", vhost)
    own, other = connect("own", "owner", PASSWORD), connect("other")
    names = {each["user_provided_name"]: each["name"] for each in api.get(f"vhosts/{vhost}/connections")}
    paths = {name: f"connections/{quote(names[name], safe='')}" for name in names}
    assert [each["user"] for each in api.get("connections", "owner")] == ["owner"]
    assert api.status("GET", paths["other"], user="owner") == 401
    assert api.status("DELETE", paths["other"], user="owner") == 401
    assert api.status("GET", paths["own"], user="watcher") == 200
    assert api.status("DELETE", paths["own"], user="watcher") == 401
    assert api.status("DELETE", "connections/username/owner", user="owner") == 204
    assert closed_with(own).startswith("320")
    other.process_data_events(0)
