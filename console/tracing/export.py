"""Sends the spans of a node to a collector, by OTLP over HTTP (OpenTelemetry's protocol).

Spans are read from the processes every `EXPORT_SECONDS` and sent in a thread. Those that the collector does not take
are dropped, and the log says so once: no process of the node waits for it. Headers, certificates and the time-out are
OpenTelemetry's environment variables (`OTEL_EXPORTER_OTLP_HEADERS`, …).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from console.tracing.reading import Facts, SpanReader
from penstock import __version__
from penstock.node.logs import get_logger
from penstock.text.utf8 import readable

if TYPE_CHECKING:
    from penstock.memory.gauges import Gauges
    from penstock.node.node import Node

log = get_logger()

EXPORT_SECONDS = 2.0
ATTRIBUTES = {
    "exchange": "messaging.destination.name",
    "queue": "messaging.destination.name",
    "routing_key": "messaging.rabbitmq.destination.routing_key",
    "client": "messaging.client.id",
    "peer": "network.peer.address",
}
"""Names of facts in OpenTelemetry's conventions for messaging; others are called `penstock.…`."""


class Problem(logging.Handler):
    """The last problem of OpenTelemetry's exporter, which tells only the log of Python."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text of a record."""
        self.text = record.getMessage()


class SpanExport:
    """The export of one node's spans."""

    def __init__(self, node: Node, gauges: Gauges) -> None:
        self._endpoint = node.settings.traces.endpoint
        self._reader = SpanReader(node, gauges)
        self._resource = Resource({
            "service.name": "penstock", "service.version": __version__, "service.instance.id": node.telemetry_name,
        })  # fmt: skip
        self._exporter = OTLPSpanExporter(self._endpoint)
        self._problem = Problem()
        library = logging.getLogger("opentelemetry")
        library.addHandler(self._problem)
        library.propagate = False
        self._thread = ThreadPoolExecutor(1, "spans")
        self._failing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the running loop."""
        self._task = asyncio.create_task(self._export_for_ever())

    async def close(self) -> None:
        """End; spans that have not been sent are dropped."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _export_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(EXPORT_SECONDS)
            try:
                spans = await self._reader.read()
            except OSError as error:
                log.debug("spans are read later", problem=str(error))
                continue
            if spans:
                taken = await loop.run_in_executor(self._thread, self._send, spans)
                self._report(len(spans), taken)

    def _send(self, spans: Sequence[Facts]) -> bool:
        return self._exporter.export([self._as_sent(span) for span in spans]) is SpanExportResult.SUCCESS

    def _report(self, count: int, taken: bool) -> None:
        if not taken and not self._failing:
            log.error("traces cannot be sent", endpoint=self._endpoint, problem=self._problem.text, dropped=count)
        elif taken and self._failing:
            log.info("traces are sent again", endpoint=self._endpoint)
        self._failing = not taken

    def _as_sent(self, span: Facts) -> ReadableSpan:
        facts = readable(span["attributes"])
        destination = facts.get("exchange", facts.get("queue", ""))
        return ReadableSpan(
            f"{span['name']} {destination}".rstrip(),
            _context(span["trace"], span["span"]),
            None if span["parent"] is None else _context(span["trace"], span["parent"]),
            self._resource,
            {
                "messaging.system": "penstock",
                "messaging.operation.name": span["name"],
                "penstock.process": span["process"],
                **{ATTRIBUTES.get(name, f"penstock.{name}"): value for name, value in facts.items()},
            },
            kind=SpanKind.SERVER if span["name"] == "publish" else SpanKind.INTERNAL,
            start_time=span["begin"] * 1000,
            end_time=span["end"] * 1000,
        )


def _context(trace: str, span: str) -> SpanContext:
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
