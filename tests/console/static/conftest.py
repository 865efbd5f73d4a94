"""A node with a full queue that holds clients of pika, and a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

import pika
import pytest

from ops.claim import Pointer
from penstock.node.node import Node
from tests.broker import Broker
from tests.browser import Browser, browser, program
from tests.console.static.console import Console
from tests.waiting import wait_for

HOSTILE = ("<img src=x onerror=alert(1)>", "evil\u202etxt.exe", "'\"><script>alert(1)</script>", "a/b?c#d%2e")
PRODUCERS = 2


class Scene(NamedTuple):
    """A node, and the address of its console."""

    broker: Broker
    url: str
    channel: pika.adapters.blocking_connection.BlockingChannel


@pytest.fixture(scope="package")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if program() is None:
        pytest.skip("no Chromium is installed")
    with browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture(scope="package")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A node whose queue `orders` is full, with producers that it holds, and queues with hostile names."""
    directory = tmp_path_factory.mktemp("node")
    with Broker(directory, "http.port=0", "http.metrics_port=0", shards=2) as broker:
        host, port = Node.load(Pointer.load(directory / "data").runtime).http["api"]
        connection = pika.BlockingConnection(parameters(broker))
        channel = connection.channel()
        channel.queue_declare("orders", durable=True, arguments={"x-max-length": 1000, "x-overflow": "flow"})
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_bind("orders", "shop", "eu.#")
        for name in HOSTILE:
            channel.queue_declare(name)
        for _ in range(PRODUCERS):
            threading.Thread(target=produce, args=(broker,), daemon=True).start()
        yield Scene(broker, f"http://{host}:{port}", channel)


def parameters(broker: Broker) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(broker.address.host, broker.address.port, heartbeat=0)


def produce(broker: Broker) -> None:
    """Publish until the connection ends: with the node, at the latest."""
    connection = pika.BlockingConnection(parameters(broker))
    channel = connection.channel()
    try:
        while True:
            channel.basic_publish("shop", "eu.new", bytes(400))
            connection.process_data_events(0)
    except pika.exceptions.AMQPError:
        return


@pytest.fixture
def console(chromium: Browser, scene: Scene) -> Console:
    """The console, logged in."""
    opened = Console(chromium, scene.url)
    opened.log_in()
    opened.wait_for_text(f"{PRODUCERS} held", ".pill")
    return opened


@pytest.fixture(scope="package")
def phone(chromium: Browser, scene: Scene) -> Console:
    """The console on the narrowest phone, logged in."""
    opened = Console(chromium, scene.url, width=360)
    opened.log_in()
    wait_for(lambda: opened.page.evaluate("!!document.querySelector('.menu')"))
    return opened
