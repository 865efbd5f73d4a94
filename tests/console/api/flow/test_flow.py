"""Flow control over HTTP: who is held and why, stops by hand, trials, and the stream of changes, on a real node."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest
import urllib3

from tests.broker.flow import MARKS, RESUME, STOP
from tests.console.http.node import GUEST, HttpBroker
from tests.outcomes import wait_get
from tests.raw import CAPABILITIES, Channel, Client
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

READER = ("reader", "reader")
LONG_STOP = 1.5
UNACKED = 5
"""Messages that the consumer takes and does not ack."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBroker]:
    with HttpBroker(tmp_path_factory.mktemp("node"), acceptors=2, shards=2) as node:
        done = node.penstock("user", "add", "reader", "--tag", "monitoring", given="reader\n")
        assert done.returncode == 0, done.stderr
        yield node


class Held:
    """A producer held by a queue whose consumer does not ack."""

    def __init__(self, node: HttpBroker, name: str) -> None:
        self.name = name
        properties = {"capabilities": CAPABILITIES, "product": "held"}
        self.consumer = Client.connect(node.address)
        self.producer = Client.connect(node.address, properties=properties)

    def __enter__(self) -> Self:
        channel = self.channel = self.consumer.channel()
        channel.call("exchange.declare", exchange=f"x.{self.name}", type="topic")
        channel.call("queue.declare", queue=self.name, durable=True, arguments=MARKS)
        channel.call("queue.bind", queue=self.name, exchange=f"x.{self.name}", routing_key="k.#")
        channel.call("basic.qos", prefetch_count=UNACKED)
        channel.call("basic.consume", queue=self.name, consumer_tag=f"c.{self.name}")
        self.publishing = self.producer.channel()
        for number in range(2 * STOP):
            self.publishing.publish(b"%d" % number, "k.1", exchange=f"x.{self.name}")
        self.producer.take("connection.blocked")
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()
        self.producer.kill()

    def drain(self, getting: Channel) -> None:
        """Take all messages that the consumer has not got, so that the producer is let go."""
        for _ in range(2 * STOP - UNACKED):
            wait_get(getting, self.name)
        self.producer.take("connection.unblocked")


class Events:
    """The stream of events, read in a thread."""

    def __init__(self, node: HttpBroker) -> None:
        self._url = f"http://{node.http().host}:{node.http().port}/api/flow/events"
        self._found: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()

    def __enter__(self) -> Self:
        headers = urllib3.make_headers(basic_auth=":".join(GUEST))
        self._pool = urllib3.PoolManager()
        self._answer = self._pool.request("GET", self._url, headers=headers, preload_content=False)
        assert self._answer.headers["content-type"].startswith("text/event-stream")
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._pool.clear()

    def _read(self) -> None:
        kind = ""
        for line in self._lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                self._found.put((kind, json.loads(value)))

    def _lines(self) -> Iterator[str]:
        rest = b""
        try:
            for part in self._answer.stream(65536, decode_content=False):
                *lines, rest = (rest + part).split(b"\n")
                yield from (line.decode() for line in lines)
        except (urllib3.exceptions.HTTPError, AttributeError, ValueError, OSError):
            return  # the test has closed the stream

    def take(self, kind: str, **wanted: Any) -> dict[str, Any]:
        """Wait for an event with these facts."""
        while True:
            found, facts = self._found.get(timeout=PATIENCE)
            if found == kind and all(facts.get(name) == value for name, value in wanted.items()):
                return facts


def held(node: HttpBroker, name: str) -> list[dict[str, Any]]:
    found = node.get("/api/flow/held").json
    return [each for each in found if any(cause.get("name") == name for cause in each["causes"])]


def account(node: HttpBroker, name: str) -> float:
    """Return for how long a queue has held producers."""
    accounts = node.get("/api/flow/ledger?by=queue").json
    return sum(each["seconds"] for each in accounts if each["name"] == name)


def test_a_held_producer_is_shown_with_its_causes_down_to_the_consumer(node: HttpBroker) -> None:
    with Held(node, "orders") as course:
        (channel,) = wait_for(lambda: held(node, "orders"))
        (cause,) = channel["causes"]
        assert (channel["client"], channel["user"], channel["exchange"]) == ("held", "guest", "x.orders")
        assert (cause["kind"], cause["vhost"], cause["stop"], cause["resume"]) == ("queue", "/", STOP, RESUME)
        assert cause["depth"] >= STOP
        lines = node.get(f"/api/flow/why/{channel['connection']}").json["lines"]
        assert lines[0]["depth"] == 0 and lines[0]["text"].startswith(f"connection {channel['connection']} (held,")
        assert any("c.orders" in line["text"] and f"{UNACKED} of {UNACKED} unacked" in line["text"] for line in lines)
        graph = node.get("/api/flow/graph").json
        states = {each["label"]: each["state"] for each in graph["nodes"]}
        assert (states["orders"], states["c.orders"]) == ("held", "cause")
        assert ("x.orders", "flowing") in states.items() and ("guest", "held") in states.items()
        wait_for(lambda: account(node, "orders") > LONG_STOP, what="a stop that is not summed up with others")
        course.drain(course.channel)
        wait_for(lambda: not held(node, "orders"), what="its release")
        assert node.get(f"/api/flow/why/{channel['connection']}").status == 404
    wait_for(lambda: [each for each in node.get("/api/flow/incidents").json if each["queue"] == "orders"])


def test_changes_are_told_as_they_happen(node: HttpBroker) -> None:
    with Events(node) as events:
        snapshot = events.take("snapshot")
        assert all(each["causes"] for each in snapshot["held"])
        with Held(node, "live") as course:
            reported = events.take("held", exchange="x.live")
            events.take("queue", name="live", saturated=True)
            course.drain(course.channel)
            events.take("released", connection=reported["connection"])
            events.take("queue", name="live", saturated=False)


def test_a_stop_by_hand_is_tried_made_and_lifted(node: HttpBroker) -> None:
    with (
        Client.connect(node.address, properties={"capabilities": CAPABILITIES, "product": "p"}) as producer,
        Events(node) as events,
    ):
        channel = producer.channel()
        channel.call("queue.declare", queue="by-hand", durable=True)
        channel.publish(b"x", "by-hand")
        scope = {"queue": "by-hand"}
        tried = wait_for(
            lambda: (found := node.request("POST", "/api/flow/stops/try", scope).json)["channels"] and found
        )
        assert [each["client"] for each in tried["rows"]] == ["p"]
        made = node.request("POST", "/api/flow/stops", {**scope, "reason": "db move", "seconds": 600})
        assert (made.status, made.json["vhost"], made.json["author"]) == (201, "/", "guest")
        number = made.json["number"]
        channel.publish(b"y", "by-hand")
        events.take("held", client="p")
        assert [each["number"] for each in events.take("stop")["stops"]] == [number]
        assert [each["reason"] for each in node.get("/api/flow/stops").json] == ["db move"]
        assert node.request("DELETE", f"/api/flow/stops/{number}").status == 200
        events.take("released")
        assert node.get("/api/flow/stops").json == []
        assert node.request("DELETE", f"/api/flow/stops/{number}").status == 404
    records = [json.loads(line) for path in (node.directory / "data" / "audit").glob("console.*.jsonl")
               for line in path.read_text().splitlines()]  # fmt: skip
    assert [(each["command"], each["who"]["http_user"], each["outcome"]) for each in records] == [
        ("flow_stop", "guest", "done"), ("flow_lift", "guest", "done"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("scope", "reason"),
    [
        ({}, "give all, or any of vhost, exchange, key, queue, user and connection"),
        ({"all": True, "queue": "q"}, "give all, or any of vhost, exchange, key, queue, user and connection"),
        ({"queues": "q"}, "queues: Extra inputs are not permitted"),
        ({"all": True, "seconds": -1}, "seconds: Input should be greater than 0"),
        ({"vhost": "nowhere"}, "Not Found"),
        ({"all": True, "reason": "a\nb"}, "the reason has to be one line of at most 200 characters"),
    ],
)
def test_a_stop_that_makes_no_sense_is_refused(node: HttpBroker, scope: dict[str, Any], reason: str) -> None:
    refused = node.request("POST", "/api/flow/stops", scope)
    assert refused.status in (400, 404) and refused.json["reason"] == reason
    assert node.get("/api/flow/stops").json == []


def test_a_change_of_marks_is_tried_before_it_is_made(node: HttpBroker) -> None:
    with Client.connect(node.address, properties={"capabilities": CAPABILITIES, "product": "trier"}) as producer:
        channel = producer.channel()
        channel.call("queue.declare", queue="tried", durable=True)
        for _ in range(10):
            channel.publish(b"x", "tried")
        wait_for(lambda: channel.depth("tried") == 10)
        policy = {"vhost": "/", "name": "t", "pattern": "^tried$", "definition": {"flow-stop-count": 5}}
        found = node.request("POST", "/api/flow/limits/try", policy).json
        assert found["reached"] == ["queue 'tried' in vhost '/': 10 of 5 messages"]
        assert [each["client"] for each in found["stopped"]] == ["trier"]
        assert node.request("POST", "/api/flow/limits/try", {**policy, "definition": {"nonsense": 1}}).status == 400
        settings = {each["setting"]: each["value"] for each in node.get("/api/flow/limits/%2F/tried").json["settings"]}
        assert settings["flow-stop-count"] is None, "it was not made"


def test_shards_and_courses_are_shown(node: HttpBroker) -> None:
    assert [each["shard"] for each in node.get("/api/shards").json] == [0, 1]
    wait_for(lambda: node.get("/api/shards").json[0]["cpu_percent"] is not None)
    assert wait_for(lambda: node.get("/api/history").json["at"])
    assert node.get("/api/rebalance").json["moves"] == []


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("POST", "/api/flow/stops", {"all": True}),
        ("POST", "/api/flow/stops/try", {"vhost": "/"}),
        ("POST", "/api/flow/limits/try", {"vhost": "/", "name": "n", "pattern": "", "definition": {}}),
    ],
)
def test_a_monitoring_user_may_look_and_change_nothing(node: HttpBroker, method: str, path: str, content: Any) -> None:
    for seen in ("held", "graph", "stops", "ledger", "incidents"):
        assert node.get(f"/api/flow/{seen}", user=READER).status == 200
    assert node.request(method, path, content, user=READER).status == 401
