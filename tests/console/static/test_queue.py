"""The page of a queue: limits changed, the queue and its messages moved, definitions brought."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.console.static.conftest import Scene, parameters
from tests.console.static.console import Console
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture
def queues(scene: Scene) -> Iterator[None]:
    """`target`, and `dead` with three dead letters of `origin`."""
    channel = scene.channel
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("origin", durable=True, arguments=dead)
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("target", durable=True)
    for number in range(3):
        channel.basic_publish("", "origin", b"%d" % number)
    wait_for(lambda: depth(scene, "origin") == 3)
    for _ in range(3):
        channel.basic_reject(channel.basic_get("origin")[0].delivery_tag, requeue=False)
    wait_for(lambda: depth(scene, "dead") == 3)
    yield
    for name in ("origin", "dead", "target"):
        channel.queue_delete(name)


def depth(scene: Scene, queue: str) -> int:
    return int(scene.channel.queue_declare(queue, passive=True).method.message_count)


def shard_of(scene: Scene, queue: str) -> int:
    placed = scene.broker.call("placement", vhost="/")["queues"]
    return next(each["shard"] for each in placed if each["name"] == queue)


@pytest.mark.usefixtures("queues")
def test_dead_letters_are_redriven(console: Console, scene: Scene) -> None:
    console.go("queue/%2F/dead")
    console.click_button("Move messages …", "main")
    console.wait_for_text("3 ready messages at most", "dialog[open]")
    console.click_button("Redrive", "dialog[open]")
    console.wait_for_text("Redriven: 3 messages.")
    assert (depth(scene, "dead"), depth(scene, "origin")) == (0, 3)
    console.check_clean()


@pytest.mark.usefixtures("queues")
def test_messages_are_moved_to_another_queue(console: Console, scene: Scene) -> None:
    console.go("queue/%2F/dead")
    console.click_button("Move messages …", "main")
    console.wait_for_text("3 ready messages at most", "dialog[open]")
    console.page.evaluate("document.querySelectorAll('dialog[open] input[name=way]')[1].click()")
    console.wait("document.querySelector('dialog[open] .field input')")
    console.write("dialog[open] .field input", "target")
    console.click_button("Move messages", "dialog[open]")
    console.wait_for_text("Moved: 3 messages.")
    assert (depth(scene, "dead"), depth(scene, "target")) == (0, 3)
    console.check_clean()


def test_a_higher_mark_lets_producers_go(console: Console, scene: Scene) -> None:
    policy = {"vhost": "/", "operator": False, "name": "limits of eased"}
    scene.channel.queue_declare("eased", durable=True)
    scene.broker.call(
        "policy_set", **policy, pattern="^eased$", priority=0, apply_to="queues",
        definition={"max-length": 10, "overflow": "flow"},
    )  # fmt: skip
    with pika.BlockingConnection(parameters(scene.broker)) as connection:
        producer = connection.channel()
        for _ in range(40):
            producer.basic_publish("", "eased", b"m")
        console.go("queue/%2F/eased")
        console.wait_for_text("held", "main .badge")
        console.click_button("Change limits …", "main")
        console.wait("document.querySelector('dialog[open] input[name=max-length]')")
        console.write("dialog[open] input[name=max-length]", "3000")
        console.click_button("Apply to 1 queue", "dialog[open]")
        console.wait_for_text("Applied policy")
        console.wait_for_text("flows", "main .badge")
        wait_for(lambda: depth(scene, "eased") == 40)
    scene.broker.call("policy_delete", **policy)
    scene.channel.queue_delete("eased")
    console.check_clean()


def test_a_queue_is_moved_to_another_shard(console: Console, scene: Scene) -> None:
    scene.channel.queue_declare("moving", durable=True)
    scene.channel.basic_publish("", "moving", b"m")
    before = shard_of(scene, "moving")
    console.go("queue/%2F/moving")
    console.click_button("Move …", "main")
    console.wait("document.querySelector('dialog[open] select')")
    console.click_button("Move moving to shard", "dialog[open]")
    console.wait_for_text("Moved moving to shard")
    assert depth(scene, "moving") == 1
    assert shard_of(scene, "moving") == 1 - before
    scene.channel.queue_delete("moving")
    console.check_clean()


def test_definitions_are_uploaded(console: Console, scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    queue = {"name": "uploaded", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    file.write_text(json.dumps({"queues": [queue]}))
    console.go("definitions")
    console.wait("document.querySelector('main input[type=file]')")
    console.page.upload("main input[type=file]", file)
    console.wait_for_text("1 queue", "dialog[open]")
    console.click_button("Upload definitions", "dialog[open]")
    console.wait_for_text("Uploaded definitions.json.")
    assert depth(scene, "uploaded") == 0
    scene.channel.queue_delete("uploaded")
    console.check_clean()
