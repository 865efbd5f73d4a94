"""Fills a node of a release and keeps its data directory as an archive, for the tests of later releases.

    python -m tests.ops.upgrade.fill CHECKOUT NAME {ended,killed}

CHECKOUT is a checkout of the release in which `make serve` has run; the archive is stores/NAME-{ended,killed}.tar.zst.
The contents are such that every release so far can have them; `test_stores.py` has what a later release must find.
"""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pika
import zstandard

STORES = Path(__file__).parent / "stores"
NAMING = ("data/telemetry", "data/running.json")
"""What names the machine, or a place on it."""
PERSISTENT, TRANSIENT = 2, 1
ORDERS, URGENT, HELD, REJECTED = 200, 20, 30, 10
ACKED = (0, 2, 4, 6, 8)
"""The orders that are acked, of the first ten; the ten after them are unacked when the node ends."""
LARGE = bytes(range(256)) * 400


def run(checkout: Path, data: Path, *arguments: str) -> None:
    """Run a command of the release."""
    command = [str(checkout / ".venv/bin/penstock"), *arguments, "--data", str(data)]
    subprocess.run(command, input="secret\n", text=True, check=True, stdout=subprocess.DEVNULL)


def declare(channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
    channel.exchange_declare("events", "topic", durable=True)
    channel.exchange_declare("dead", "fanout", durable=True)
    channel.queue_declare("orders", durable=True)
    channel.queue_bind("orders", "events", "order.#")
    channel.queue_declare("urgent", durable=True, arguments={"x-max-priority": 5})
    channel.queue_declare("held", durable=True, arguments={"x-max-length": 50, "x-overflow": "flow"})
    channel.queue_declare("letters", durable=True)
    channel.queue_bind("letters", "dead", "")
    day = 86_400_000
    channel.queue_declare(
        "rejected", durable=True, arguments={"x-dead-letter-exchange": "dead", "x-message-ttl": 30 * day}
    )


def publish(channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
    persistent = pika.BasicProperties(delivery_mode=PERSISTENT)
    for number in range(ORDERS):
        properties = pika.BasicProperties(delivery_mode=PERSISTENT, headers={"number": number}, message_id=f"m{number}")
        channel.basic_publish("events", f"order.{number}", b"order %d" % number, properties, mandatory=True)
    channel.basic_publish("", "orders", b"transient", pika.BasicProperties(delivery_mode=TRANSIENT))
    for number in range(URGENT):
        properties = pika.BasicProperties(delivery_mode=PERSISTENT, priority=number % 5)
        channel.basic_publish("", "urgent", b"urgent %d" % number, properties)
    for number in range(HELD):
        channel.basic_publish("", "held", b"held %d" % number, persistent)
    for number in range(REJECTED):
        channel.basic_publish("", "rejected", b"rejected %d" % number, persistent)
    channel.basic_publish("", "letters", LARGE, persistent)


def consume(channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
    """Ack some orders, leave others unacked, and have a message dead-lettered; a commit tells that all has arrived."""
    channel.tx_select()
    tags = [channel.basic_get("orders")[0].delivery_tag for _ in range(20)]
    for number in ACKED:
        channel.basic_ack(tags[number])
    channel.basic_nack(channel.basic_get("rejected")[0].delivery_tag, requeue=False)
    channel.tx_commit()


def archive(data: Path, path: Path) -> None:
    """Write the data directory to an archive, without what names the machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(data, "data", filter=lambda member: None if member.name in NAMING else member)
    path.write_bytes(zstandard.ZstdCompressor(level=19).compress(packed.getvalue()))


def fill(checkout: Path, name: str, end: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory, "data")
        command = [str(checkout / ".venv/bin/penstock"), "serve", "--data", str(data), "--port", "0", "--shards", "2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
            assert node.stdout is not None
            ready = re.search(r"amqp=127\.0\.0\.1:(\d+) pid=(\d+)", node.stdout.readline())
            assert ready is not None, "the node does not start"
            run(checkout, data, "vhost", "add", "shop")
            run(checkout, data, "user", "add", "alice", "--tag", "monitoring")
            run(checkout, data, "permission", "set", "alice", "", "", ".*", "--vhost", "shop")
            run(checkout, data, "policy", "set", "small", "^held$", '{"max-length": 40}')
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(ready[1]))) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                declare(channel)
                publish(channel)
                consume(connection.channel())
                if end == "killed":
                    os.kill(int(ready[2]), signal.SIGKILL)
                    node.wait()
                    archive(data, STORES / f"{name}-killed.tar.zst")
                    os._exit(0)
            node.send_signal(signal.SIGTERM)
            node.wait()
        archive(data, STORES / f"{name}-ended.tar.zst")


if __name__ == "__main__":
    fill(Path(sys.argv[1]), *sys.argv[2:])
