"""Secrets that a node is given are in no log, no list of processes, no telemetry and no file that others may read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import pika
import pytest
import zstandard

from ops.claim import Pointer
from penstock.node.node import Node
from tests import certificates
from tests.broker import Broker
from tests.broker.listeners import address_of, listening
from tests.broker.test_tls import connect
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker

SECRETS = {
    "of a user": "planted-password-of-a-user",
    "of a user, changed": "planted-password-that-is-new",
    "wrong": "planted-password-that-is-wrong",
    "of a relay": "planted-password-of-a-relay",
    "in a header": "planted-header-of-a-message",
    "in a body": "planted-body-of-a-message",
}


def unpacked(path: Path) -> bytes:
    """Return the contents of a compressed file as far as they have been written."""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
        return reader.read()


def seen_by_others(broker: Broker) -> dict[str, bytes]:
    """Return what users of the machine, and readers of logs and telemetry, can see of a node."""
    found = {"log": broker.log.encode()}
    for process in broker.processes():
        for name in ("cmdline", "environ"):
            found[f"{name} of {process.pid}"] = Path(f"/proc/{process.pid}/{name}").read_bytes()
    for path in (broker.directory / "data").rglob("*"):
        if path.is_file() and {"telemetry", "audit"} & {*path.parts, path.name.partition(".")[0]}:
            found[str(path)] = path.read_bytes() if path.suffix != ".zst" else unpacked(path)
    for command in (["config", "show"], ["status"], ["connection", "list", "--json"], ["relay", "list", "--json"]):
        found[" ".join(command)] = broker.penstock(*command).stdout.encode()
    return found


def use(broker: Broker) -> None:
    """Log in with right and wrong passwords, publish, and have a password changed."""
    broker.penstock("user", "add", "ann", given=SECRETS["of a user"] + "\n")
    broker.penstock("permission", "set", "ann", ".*", ".*", ".*")
    right = pika.PlainCredentials("ann", SECRETS["of a user"])
    with connect(address_of(broker), credentials=right) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        properties = pika.BasicProperties(headers={"token": SECRETS["in a header"]}, delivery_mode=2)
        channel.basic_publish("", "q", SECRETS["in a body"].encode(), properties)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("q", durable=False)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(address_of(broker), credentials=pika.PlainCredentials("ann", SECRETS["wrong"]))
    broker.penstock("user", "password", "ann", given=SECRETS["of a user, changed"] + "\n")


def test_secrets_stay_with_the_node(tmp_path: Path) -> None:
    url = tmp_path / "url"
    url.write_text(f"amqp://ann:{SECRETS['of a relay']}@127.0.0.1:1/")
    url.chmod(0o600)
    relay = [f"relays.out.target=@{url}", "relays.out.queue=q", "relays.out.target_queue=there"]
    with Broker(tmp_path, *listening(), *relay, "telemetry.frame_seconds=0.1") as broker:
        use(broker)
        wait_for(lambda: "login refused" in broker.log and "telemetry" in str([*seen_by_others(broker)]), PATIENCE)
        key = certificates.server().read_text().partition("-----BEGIN PRIVATE KEY-----")[2].split()[0]
        for name, contents in seen_by_others(broker).items():
            for what, secret in {**SECRETS, "key": key}.items():
                assert secret.encode() not in contents, f"the secret {what} is in {name}"
        shared = list(Path("/dev/shm").glob(f"penstock-{os.geteuid()}-{broker.pid}.*"))
        pointer = Pointer.load(tmp_path / "data")
        assert pointer and shared
        node = Node.load(pointer.runtime)
        for path in [*shared, node.runtime, *node.runtime.iterdir(), tmp_path / "data"]:
            with suppress(FileNotFoundError):
                assert not stat.S_IMODE(path.stat().st_mode) & 0o077, f"others may use {path}"
