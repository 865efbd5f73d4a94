"""A publish that triggers a bug in every incarnation of its shard: other clients are served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptor.moving.suspects import ENDS_MAX
from penstock.node.failures import FAILURE_STATUS
from tests.broker import Broker
from tests.broker.test_fairness import split
from tests.outcomes import Confirms, bodies
from tests.raw import Client
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

# Written as sitecustomize.py, which every interpreter imports at its start, before anything of penstock.
BUG = """
import importlib.abc, importlib.util, os, signal, sys


class ProvokedBug(Exception):
    pass


def ends(how):
    if how == b"raises":
        raise ProvokedBug
    os.kill(os.getpid(), signal.SIGKILL)


def poison(intake, serving):
    publish = intake.publish

    def fails(self, link, parts, turn, index, operation, *more, **named):
        contents = bytes(parts[operation[2] + 1])
        if b"poison " in contents:
            ends(contents.partition(b"poison ")[2][:6])
        publish(self, link, parts, turn, index, operation, *more, **named)

    intake.publish = fails
    serve = serving.serve

    def fails_at_end(self, queue):
        fresh = any(link.received != link.safe for link in self.state.links.values())
        if queue.name == "unfinished" and queue.contents.ready and fresh:
            ends(b"raises")
        serve(self, queue)

    serving.serve = fails_at_end


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "shard.core":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            poison(module.Intake, module.Serving)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
"""


@pytest.fixture
def buggy(tmp_path: Path) -> Iterator[Broker]:
    (tmp_path / "sitecustomize.py").write_text(BUG)
    environment = {"PYTHONPATH": str(tmp_path)}
    with Broker(tmp_path, acceptors=2, environment=environment, provokes="ProvokedBug") as broker:
        yield broker


def lines(broker: Broker, **facts: Any) -> list[dict[str, Any]]:
    """Return the log lines with these facts."""
    reported = (json.loads(line) for line in broker.log.splitlines() if line.startswith("{"))
    return [line for line in reported if facts.items() <= line.items()]


@pytest.mark.parametrize(
    ("how", "queue", "operation"),
    [
        ("raises", "poisoned", "publish"),
        ("killed", "poisoned", "publish"),
        ("harmless", "unfinished", "end of a turn"),
    ],
)
def test_a_publish_that_ends_every_incarnation_of_its_shard(
    buggy: Broker, how: str, queue: str, operation: str
) -> None:
    """After some incarnations the publisher's connection ends with 541, and the log names the operation; all other
    publishes are confirmed, at both acceptors.
    """
    others = [client.channel() for client in split(buggy, 2, 2)]
    confirms = [Confirms(channel) for channel in others]
    with Client.connect(buggy.address) as unlucky:
        channel = unlucky.channel()
        for name in queue, "works":
            channel.call("queue.declare", queue=name, durable=True)
        unconfirmed = Confirms(channel)
        body = how.encode() if how == "harmless" else b"poison " + how.encode()
        unconfirmed.publish(body, queue, delivery_mode=2)
        for number in range(50):
            for each in confirms:
                each.publish(b"%d" % number, "works", delivery_mode=2)
        assert channel.closed().code == 541
        assert not unconfirmed.acked
    for each in confirms:
        each.wait()
        assert not each.nacked
    wait_for(lambda: lines(buggy, event="operation given up"))
    (line,) = lines(buggy, event="operation given up")
    assert (line["operation"], line["queues"], line["ends"]) == (operation, [f"queue '{queue}' in vhost '/'"], ENDS_MAX)
    died = lines(buggy, event="process died", process="shard 0")
    assert len(died) == 1 + ENDS_MAX, "the first incarnation does not note what it does"
    assert all((str(FAILURE_STATUS) in each["how"]) == (how != "killed") for each in died)
    with buggy.connect() as client:
        fresh = client.channel()
        assert bodies(fresh, queue) == []
        assert sorted(bodies(fresh, "works")) == sorted(b"%d" % number for number in range(50) for _ in confirms)
    for channel in others:
        channel.client.close()
