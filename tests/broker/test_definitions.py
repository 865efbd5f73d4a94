"""Definitions at the start of a node: they are there before clients are, once for each start, or the node does not
start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from tests.broker import Broker
from tests.broker.process import ROOT, WITHOUT_HTTP
from tests.router.making import rabbit_hash

pytestmark = pytest.mark.broker

DEFINITIONS = {
    "vhosts": [{"name": "shop"}],
    "users": [{"name": "ann", "password_hash": rabbit_hash("secret").removeprefix("sha256:"), "tags": []}],
    "permissions": [{"user": "ann", "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"}],
    "exchanges": [{"name": "events", "vhost": "shop", "type": "topic"}],
    "queues": [{"name": "orders", "vhost": "shop"}, {"name": "mails", "vhost": "shop"}],
    "bindings": [{"source": "events", "vhost": "shop", "destination": "orders", "routing_key": "order.#"}],
}


def connect(broker: Broker) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials("ann", "secret")
    address = broker.address
    return pika.BlockingConnection(pika.ConnectionParameters(address.host, address.port, "shop", credentials))


def queues(broker: Broker) -> set[str]:
    return {each["name"] for each in broker.call("placement", vhost="shop")["queues"]}


def test_a_node_begins_with_its_definitions_and_gets_them_again_at_its_next_start_only(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(DEFINITIONS))
    with Broker(tmp_path, f"definitions={file}") as broker:
        with connect(broker) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("events", "order.new", b"1", mandatory=True)
            assert channel.basic_get("orders", auto_ack=True)[2] == b"1"
            channel.queue_delete("mails")
        assert [user["name"] for user in broker.call("user_list")] == ["ann"]
        broker.wait_replaced("router", broker.kill("router"))
        with connect(broker) as connection:
            connection.channel().queue_declare("one more")
        assert queues(broker) == {"orders", "one more"}
        broker.stop()
        broker.start()
        assert queues(broker) == {"orders", "mails"}


def test_a_node_does_not_start_with_definitions_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({**DEFINITIONS, "exchanges": [{"name": "late", "type": "x-none", "vhost": "shop"}]}))
    done = subprocess.run(
        [sys.executable, "-m", "ops", "serve", "--port", "0", "--data", str(tmp_path / "data"), *WITHOUT_HTTP],
        cwd=ROOT, env={**os.environ, "PENSTOCK_DEFINITIONS": str(file)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    reason = "exchange 'late' in vhost 'shop': unknown exchange type 'x-none'"
    assert f"definitions {file}: {reason}, and 1 more" in done.stderr.splitlines()[-1]
