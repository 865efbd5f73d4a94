"""`penstock migrate`: from one node to another and back, with producers at work, and either node killed; and from
RabbitMQ under load.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError

from tests.broker import Broker
from tests.broker.process import ROOT
from tests.differential import rabbitmq
from tests.ops.relay.queues import channel_to, declare, drained, fill, numbers, ready, url_of
from tests.ports import free_port
from tests.raw import Address
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker

DEFINITIONS = {
    "queues": [
        {"name": "a", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}},
        {"name": "b", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}},
        {"name": "c", "vhost": "other", "durable": True, "auto_delete": False, "arguments": {}},
    ],
    "vhosts": [{"name": "/"}, {"name": "other"}],
}


class Producer(threading.Thread):
    """Publishes numbers to queue a with confirms, from one after the other, whenever its broker is there. A context
    bounds its life.
    """

    def __init__(self, url: str, first: int = 0) -> None:
        super().__init__(daemon=True)
        self.parameters = pika.URLParameters(url)
        self.number = first
        self.confirmed: set[int] = set()
        self._stopping = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with pika.BlockingConnection(self.parameters) as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    while not self._stopping.is_set():
                        self.number += 1
                        channel.basic_publish(
                            "", "a", b"%d" % self.number, pika.BasicProperties(delivery_mode=2), mandatory=True
                        )
                        self.confirmed.add(self.number)
            except (AMQPError, OSError):
                self._stopping.wait(0.1)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()

    def stop(self) -> set[int]:
        """Stop, and return the confirmed numbers."""
        self._stopping.set()
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.confirmed


@contextmanager
def migrating(source: str, target: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Migrate queue a until the end of the context, then press Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ops", "migrate", source, "a", "--to", target, "--follow", *words],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")},
    )  # fmt: skip
    try:
        yield process
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()


def serve(directory: Path) -> Broker:
    """Start a node that has the same port after a restart."""
    directory.mkdir()
    return Broker(directory, options=("--port", str(free_port())))


def test_definitions_come_along_and_every_queue_of_their_vhost(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(DEFINITIONS))
    with serve(tmp_path / "old") as old, serve(tmp_path / "new") as new:
        with channel_to(old) as channel:
            declare(channel, "a", "b")
            fill(channel, "a", range(100))
            fill(channel, "b", range(5))
        done = new.penstock("migrate", url_of(old), "--definitions", str(file))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-2:] == ["a: 100 messages migrated", "b: 5 messages migrated"]
        with channel_to(new) as channel:
            assert (numbers(channel, "a"), numbers(channel, "b")) == ([*range(100)], [*range(5)])
            fill(channel, "a", range(7))
        (url := tmp_path / "url").write_text(url_of(old))
        done = new.penstock("migrate", url_of(new), "a", "--to", f"@{url}")
        assert (done.returncode, done.stdout) == (0, "a: 7 messages migrated\n"), "the way back"
        done = new.penstock("migrate", "@missing", "a")
        assert (done.returncode, done.stderr) == (
            2, "penstock: cannot read the URL in missing: No such file or directory\n",
        )  # fmt: skip
        with channel_to(old) as channel:
            assert numbers(channel, "a") == [*range(7)]


@pytest.mark.parametrize("killed", ["source", "target"])
def test_nothing_is_lost_when_a_side_is_killed_under_load(tmp_path: Path, killed: str) -> None:
    with serve(tmp_path / "old") as old, serve(tmp_path / "new") as new:
        for broker in (old, new):
            with channel_to(broker) as channel:
                declare(channel, "a")
        with Producer(url_of(old)) as producer, migrating(url_of(old), url_of(new)):
            with channel_to(new) as channel:
                wait_for(lambda: ready(channel, "a") > 100, what="the first messages")
            victim = old if killed == "source" else new
            victim.kill_all()
            victim.start()
            confirmed = len(producer.confirmed)
            wait_for(lambda: len(producer.confirmed) > confirmed + 100, what="a producer that goes on")
            sent = producer.stop()
            with channel_to(old) as channel:
                wait_for(lambda: ready(channel, "a") == 0, what="an empty source")
        with channel_to(new) as channel:
            arrived = numbers(channel, "a")
        with channel_to(old) as channel:
            arrived += numbers(channel, "a")
        assert not sent - set(arrived) and len(sent) > 200


def test_a_full_target_holds_the_migration(tmp_path: Path) -> None:
    with serve(tmp_path / "old") as old, serve(tmp_path / "new") as new:
        with channel_to(new) as channel:
            declare(channel, "a", a={"x-max-length": 50, "x-overflow": "flow"})
        with channel_to(old) as channel:
            declare(channel, "a")
            fill(channel, "a", range(500))
        with migrating(url_of(old), url_of(new), "--prefetch", "20"), channel_to(new) as channel:
            wait_for(new.held, what="a held relay")
            assert ready(channel, "a") < 100
            arrived: list[int] = []
            wait_for(lambda: arrived.extend(numbers(channel, "a")) or len(arrived) >= 500, what="all messages")
        assert arrived == [*range(500)]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "name queues, or a file with --definitions"),
        (("none",), "1 of 1 queues failed: none"),
        (tuple(map(str, range(201))), "201 queues are too many for one command: name 200 at most"),
    ],
)
def test_a_migration_that_cannot_be_is_refused(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    with serve(tmp_path / "old") as old, serve(tmp_path / "new") as new:
        done = new.penstock("migrate", url_of(old), *words)
        assert done.returncode == 2 and reason in done.stderr.splitlines()[-1]
        done = new.penstock("migrate", url_of(new), "a")
        assert "source and target are the same vhost" in done.stderr


def rabbit_channel(stack: ExitStack, address: Address) -> Any:
    connection = stack.enter_context(pika.BlockingConnection(pika.ConnectionParameters(*address)))
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


@pytest.mark.long
def test_rabbitmq_is_left_under_load_without_a_loss_and_gone_back_to(tmp_path: Path) -> None:
    """A consumer is moved first, then the producer. In the end all is sent back."""
    tmp_path.chmod(0o777)
    theirs = tmp_path / "rabbitmq"
    theirs.mkdir()
    theirs.chmod(0o777)
    with ExitStack() as stack:
        address = stack.enter_context(rabbitmq.serve(theirs))
        url = f"amqp://guest:guest@{address.host}:{address.port}/%2F"
        new = stack.enter_context(serve(tmp_path / "new"))
        rabbit = rabbit_channel(stack, address)
        declare(rabbit, "a")
        headers = pika.BasicProperties(delivery_mode=2, headers={"big": 2**40, "bytes": b"\xff", "list": [1, None]})
        rabbit.basic_publish("", "a", b"0", headers)
        ours = stack.enter_context(channel_to(new))
        declare(ours, "a")
        first = stack.enter_context(Producer(url))
        with migrating(url, url_of(new)):
            arrived: list[Any] = []
            wait_for(
                lambda: arrived.extend(drained(ours, "a", 100)) or len(arrived) > 1000, what="messages of RabbitMQ"
            )
            second = stack.enter_context(Producer(url_of(new), first.number + 1_000_000))
            sent = first.stop() | {0}
            wait_for(lambda: ready(rabbit, "a") == 0, what="an empty RabbitMQ")
        sent |= second.stop()
        arrived += drained(ours, "a")
        assert sent == {int(body) for _, _, body in arrived}
        assert arrived[0][1] == headers
        fill(ours, "a", range(300))
        done = new.penstock("migrate", url_of(new), "a", "--to", url)
        assert (done.returncode, done.stdout) == (0, "a: 300 messages migrated\n")
        assert numbers(rabbit, "a") == [*range(300)]
