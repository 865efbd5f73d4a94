"""Traces of a real node: shown by its API, and sent to a collector by OTLP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.broker import Broker
from tests.console.http.node import HttpBroker
from tests.http_server import Handler, serving
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SPANS = {"publish", "confirm", "queue", "store", "deliver", "process"}


class Collector(Handler):
    """Takes spans, unless it is told to refuse them."""

    spans: list[tuple[str, Span]]
    refuses: bool

    def received(self, body: bytes) -> None:
        if type(self).refuses:
            self.answer(400, b"")
            return
        for found in ExportTraceServiceRequest.FromString(body).resource_spans:
            (service,) = [each.value.string_value for each in found.resource.attributes if each.key == "service.name"]
            type(self).spans += [(service, span) for scope in found.scope_spans for span in scope.spans]
        self.answer(200, b"")


@pytest.fixture
def collector() -> Iterator[str]:
    Collector.spans, Collector.refuses = [], False
    with serving(Collector) as url:
        yield f"{url}/v1/traces"


def pass_one(broker: Broker, **headers: Any) -> None:
    """Have a persistent message published, confirmed, delivered and acked."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(*broker.address))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"m", pika.BasicProperties(delivery_mode=2, headers=headers))
    method, _, body = next(channel.consume("q", inactivity_timeout=50))
    assert body == b"m" and method is not None
    channel.basic_ack(method.delivery_tag)
    connection.close()


def by_name(spans: list[Any]) -> dict[str, Any]:
    return {span["name"]: span for span in spans}


def test_the_way_of_a_message_is_shown_and_sent(tmp_path: Path, collector: str) -> None:
    settings = "traces.ratio=1", f"traces.endpoint={collector}"
    with HttpBroker(tmp_path, *settings, acceptors=2, shards=2) as broker:
        pass_one(broker, traceparent=f"00-{TRACE}-{PARENT}-01")

        def whole() -> Any:
            found = broker.get("/api/traces").json
            return found and {span["name"] for span in found[0]["spans"]} == SPANS and found

        (trace,) = wait_for(whole, what="a whole trace")
        shown = by_name(trace["spans"])
        assert trace["trace"] == TRACE
        assert shown["publish"]["parent"] == PARENT
        assert shown["queue"]["parent"] == shown["confirm"]["parent"] == shown["publish"]["span"]
        assert {shown[name]["parent"] for name in ("store", "deliver", "process")} == {shown["queue"]["span"]}
        assert shown["publish"]["attributes"]["routing_key"] == "q"
        assert shown["publish"]["begin"] <= shown["deliver"]["begin"] + shown["deliver"]["milliseconds"] / 1000
        wait_for(lambda: len(Collector.spans) >= len(SPANS), what="all spans at the collector")
        assert {service for service, _ in Collector.spans} == {"penstock"}
        sent = {span.name.split()[0]: span for _, span in Collector.spans}
        assert {*sent} == SPANS and len(Collector.spans) == len(SPANS)
        for name, span in sent.items():
            assert (span.trace_id.hex(), span.span_id.hex()) == (TRACE, shown[name]["span"])
            assert span.parent_span_id.hex() == shown[name]["parent"]
            assert span.end_time_unix_nano >= span.start_time_unix_nano
        assert sent["queue"].name == "queue q" and sent["publish"].kind == Span.SPAN_KIND_SERVER
        attributes = {each.key: each.value.string_value for each in sent["queue"].attributes}
        assert attributes["messaging.destination.name"] == "q"
        refused = broker.get("/api/traces", user=None)
        assert refused.status == 401


def test_a_collector_that_refuses_is_named_once_and_harms_nobody(tmp_path: Path, collector: str) -> None:
    Collector.refuses = True
    settings = "traces.ratio=1", f"traces.endpoint={collector}"
    with Broker(tmp_path, *settings) as broker:
        pass_one(broker)
        wait_for(lambda: "traces cannot be sent" in broker.log)
        Collector.refuses = False

        def again() -> bool:
            pass_one(broker)
            return "traces are sent again" in broker.log

        wait_for(again)
        assert broker.log.count("traces cannot be sent") == 1
        assert collector in broker.log


def test_without_the_library_the_node_serves_and_says_why(tmp_path: Path) -> None:
    hidden = tmp_path / "without" / "opentelemetry"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('hidden', name='opentelemetry')\n")
    environment = {"PYTHONPATH": str(tmp_path / "without")}
    settings = "traces.ratio=1", "traces.endpoint=http://127.0.0.1:9/v1/traces"
    with Broker(tmp_path, *settings, environment=environment) as broker:
        pass_one(broker)
        wait_for(lambda: "pip install 'penstock[traces]'" in broker.log)


@pytest.mark.parametrize("assignment", ["traces.ratio=1.5", "traces.ratio=-1", "traces.endpoint=localhost:4318"])
def test_settings_that_mean_nothing_are_refused(tmp_path: Path, assignment: str) -> None:
    with pytest.raises(AssertionError, match="not ready"):
        Broker(tmp_path, assignment)
