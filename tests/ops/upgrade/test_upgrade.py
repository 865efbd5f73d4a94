"""A node goes on with the release that has been installed since its start, while clients publish and consume."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import sysconfig
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

import pika
import psutil
import pytest

from ops.claim import Pointer
from penstock.memory.gauges import Gauges
from tests.broker import Broker
from tests.ops.test_notify import Manager
from tests.raw import Client
from tests.twins import ROOT
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.long]

PACKAGES = ("acceptor", "console", "ops", "penstock", "pipeline", "router", "shard")
PLACES = ("console 0", "router 0", "shard 0", "shard 1", "acceptor 0", "acceptor 1", "supervisor 0")
MESSAGES = 400
TRANSIENT, PERSISTENT = 1, 2


class Installed(NamedTuple):
    """A release that is installed in a folder, a node that runs it, and the node's service manager."""

    folder: Path
    broker: Broker
    manager: Manager

    def replace(self, file: str, old: str, new: str) -> None:
        """Change a module, as the files of another release do."""
        path = self.folder / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))


def install(folder: Path) -> None:
    """Copy this release, with links to its compiled modules."""

    def copy(source: str, target: str) -> None:
        os.symlink(source, target) if source.endswith(".so") else shutil.copy(source, target)

    for name in PACKAGES:
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.c"), copy_function=copy
        )


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter that can be taken away."""
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    return python


@pytest.fixture
def installed(tmp_path: Path, python: Path) -> Iterator[Installed]:
    folder = tmp_path / "release"
    install(folder)
    program = [str(python), "-P", "-m", "ops"]
    (tmp_path / "node").mkdir()
    environment = {
        "PYTHONPATH": f"{folder}:{sysconfig.get_path('purelib')}",
        "NOTIFY_SOCKET": str(tmp_path / "manager"),
        "WATCHDOG_USEC": "2000000",
    }
    manager = Manager(environment["NOTIFY_SOCKET"])
    with (
        manager.socket,
        Broker(tmp_path / "node", acceptors=2, shards=2, program=program, environment=environment) as broker,
    ):
        yield Installed(folder, broker, manager)


class Clients:
    """A producer with confirms and a consumer of one queue, which connect again until all has arrived."""

    def __init__(self, broker: Broker, queue: str, mode: int) -> None:
        self.parameters = pika.URLParameters(broker.address.url)
        self.queue = queue
        self.mode = mode
        self.confirmed = 0
        self.acked: dict[int, int] = {}
        self.published_again: set[int] = set()
        self.unmarked: list[int] = []
        self.disconnected = 0
        self.upgraded = threading.Event()
        self.given_up = threading.Event()
        with pika.BlockingConnection(self.parameters) as connection:
            connection.channel().queue_declare(queue, durable=mode == PERSISTENT)
        self.threads = [threading.Thread(target=target, daemon=True) for target in (self.produce, self.consume)]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.given_up.set()
        for thread in self.threads:
            thread.join()

    def produce(self) -> None:
        properties = pika.BasicProperties(delivery_mode=self.mode)
        while self.has_more():
            try:
                with pika.BlockingConnection(self.parameters) as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    while self.has_more():
                        channel.basic_publish("", self.queue, b"%d" % self.confirmed, properties, mandatory=True)
                        self.confirmed += 1
            except pika.exceptions.AMQPConnectionError:
                self.disconnected += 1
                self.published_again.add(self.confirmed)

    def consume(self) -> None:
        while not self.is_done():
            try:
                with pika.BlockingConnection(self.parameters) as connection:
                    channel = connection.channel()
                    channel.basic_qos(prefetch_count=20)
                    for method, _, body in channel.consume(self.queue, inactivity_timeout=0.05):
                        if self.is_done():
                            break
                        if method is not None:
                            number = int(body)
                            if number in self.acked and not method.redelivered:
                                self.unmarked.append(number)
                            channel.basic_ack(method.delivery_tag)
                            self.acked[number] = self.acked.get(number, 0) + 1
            except pika.exceptions.AMQPConnectionError:
                self.disconnected += 1

    def has_more(self) -> bool:
        return not self.given_up.is_set() and (self.confirmed < MESSAGES or not self.upgraded.is_set())

    def is_done(self) -> bool:
        produced = not self.threads[0].is_alive()
        return self.given_up.is_set() or (produced and len(self.acked) >= self.confirmed)

    def finish(self) -> None:
        self.upgraded.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), f"{self.queue}: {len(self.acked)} of {self.confirmed} have arrived"


def test_every_process_is_replaced_under_load_and_no_message_is_lost(installed: Installed) -> None:
    broker = installed.broker
    before = {process.pid for process in broker.processes()}
    with Clients(broker, "transient", TRANSIENT) as first, Clients(broker, "persistent", PERSISTENT) as second:
        wait_for(lambda: min(len(first.acked), len(second.acked)) > 20, what="messages to arrive")
        installed.replace("penstock/__init__.py", '__version__ = "', '__version__ = "7.')
        done = broker.penstock("upgrade")
        assert done.returncode == 0, done.stderr
        *replaced, last = done.stdout.splitlines()
        assert replaced == [f"{name} replaced" for name in PLACES]
        assert re.fullmatch(r"all processes run penstock 7\.\S+", last)
        for each in (first, second):
            each.finish()
            assert sorted(each.acked) == list(range(each.confirmed))
            assert set(each.unmarked) <= each.published_again, "delivered again after its ack, and not marked"
            assert each.disconnected
    after = {process.pid for process in broker.processes()}
    assert len(after & before) == 1, "the supervisor, which keeps its pid"


def only_template(broker: Broker) -> psutil.Process | None:
    """Return the template; None while there is none, or one that it has just forked still has its name."""
    found = [each for each in broker.processes() if each.is_running() and each.name() == "pstk-template"]
    return found[0] if len(found) == 1 else None


def test_the_supervisor_that_follows_does_what_the_one_before_it_did(installed: Installed) -> None:
    broker = installed.broker
    pointer = Pointer.load(broker.directory / "data")
    assert pointer
    with Gauges.open(pointer.gauges, writable=False) as gauges:
        for incarnation in (2, 3):
            done = broker.penstock("upgrade")
            assert done.returncode == 0, done.stderr
            assert gauges.process_read("supervisor", 0).incarnation == incarnation
    assert sum(each.startswith("READY=1") for each in installed.manager.received()) == 1
    assert installed.manager.receives() == "WATCHDOG=1"
    for role in ("router", "shard", "acceptor"):
        broker.wait_replaced(role, broker.kill(role))
        with broker.connect() as client:
            client.channel().call("queue.declare", queue=f"after {role}")
    template = wait_for(lambda: only_template(broker), what="the template alone")
    template.kill()
    wait_for(lambda: only_template(broker) not in (None, template), what="the next template")
    broker.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "configuration reloaded" in broker.log, what="the configuration")
    for command in (("restart", "acceptors"), ("upgrade",), ("health",)):
        done = broker.penstock(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    refused = broker.penstock("serve")
    assert refused.returncode == 2 and "in use by another broker" in refused.stderr


def test_a_supervisor_that_cannot_be_replaced_goes_on(installed: Installed, python: Path) -> None:
    broker = installed.broker
    with ThreadPoolExecutor() as pool:
        upgrade = pool.submit(broker.penstock, "upgrade")
        wait_for(lambda: "are replaced by those of the installed" in broker.log, what="the end of the trial")
        python.unlink()
        wait_for(lambda: "supervisor cannot be replaced" in broker.log, what="the supervisor's attempt")
        python.symlink_to(sys.executable)
        done = upgrade.result()
    assert done.returncode == 0, done.stderr
    assert "supervisor 0 replaced" not in done.stdout
    assert done.stdout.rstrip().endswith("the supervisor does after the next start of the node")
    done = broker.penstock("upgrade")
    assert done.returncode == 0 and "supervisor 0 replaced" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("penstock/node/wire_format.py", "WIRE_FORMAT = ", "WIRE_FORMAT = 9", "cannot serve beside the running ones"),
        ("shard/core.py", "class ShardCore:", "class ShardCore", "does not start: SyntaxError"),
        (
            "shard/process.py",
            "    process.enter(runtime",
            "    1 / 0\n    process.enter(runtime",
            "shard 0 does not start",
        ),
        ("ops/supervisor.py", "class Supervisor:", "class Supervisor", "supervisor of the installed release does not"),
        ("ops/succession.py", "FORMAT = 1", "FORMAT = 9", "leaves is not of format 9"),
    ],
    ids=["wire-format", "broken", "dies", "broken-supervisor", "other-estate"],
)
def test_a_release_that_cannot_serve_leaves_the_running_one(
    installed: Installed, file: str, old: str, new: str, reason: str
) -> None:
    broker = installed.broker
    broker.provokes = "Traceback"
    with Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="orders")
        installed.replace(file, old, new)
        refused = broker.penstock("upgrade")
        assert refused.returncode == 2, refused.stdout
        (line,) = refused.stderr.splitlines()
        assert reason in line
        installed.replace(file, new, old)
        channel.publish(b"one", "orders")
        wait_for(lambda: channel.depth("orders") == 1, what="a message in the queue of the node that goes on")
    done = broker.penstock("upgrade")
    assert done.returncode == 0, done.stderr
