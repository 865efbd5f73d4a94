"""The cost of a console that lists many queues, for a client that is connected: `python -m load.listing`.

A client in C publishes at a steady rate and consumes what it publishes; its rate and latency are measured while nobody
asks, and while somebody pages through all queues over the management API without a pause, on each of two brokers in
turn.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

import typer
import urllib3
from pika.exceptions import AMQPError

from load import pump, wire
from load.courses import heading, row
from load.latency import Pace
from load.session import Session
from load.target import Target
from load.throughput import Shape

PREFIX = "listing."
ANSWER_SECONDS = 60.0
SECONDS_MAX = 60
QUEUES_MAX = 100_000


class Place(NamedTuple):
    """A broker: where it serves AMQP, and its management API."""

    target: Target
    api: str


class Lister:
    """Pages through all queues of a broker within a `with` block, again and again, from a thread of its own. At the end
    `pages` counts the answers, `seconds` is the time that each took.
    """

    def __init__(self, place: Place, page_size: int) -> None:
        self.seconds: list[float] = []
        self.problem: Exception | None = None
        parts = urlsplit(place.api)
        user = f"{place.target.user}:{place.target.password}"
        self._pool = urllib3.HTTPConnectionPool(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS, retries=False)
        self._headers = urllib3.make_headers(basic_auth=user, keep_alive=True)
        self._page_size = page_size
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="lister")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._pool.close()
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        page = 1
        try:
            while not self._ending.is_set():
                began = time.monotonic()
                pages = self._get(page)["page_count"]
                self.seconds.append(time.monotonic() - began)
                page = page % pages + 1
        except (urllib3.exceptions.HTTPError, ValueError, KeyError) as error:
            self.problem = OSError(f"the management API does not answer: {error}")

    def _get(self, page: int) -> Any:
        path = f"/api/queues?page={page}&page_size={self._page_size}"
        answer = self._pool.request("GET", path, headers=self._headers)
        if answer.status != 200:
            raise ValueError(f"status {answer.status}: {answer.data[:200]!r}")
        return json.loads(answer.data)


@contextmanager
def declared(target: Target, count: int) -> Iterator[None]:
    """Have so many queues, within a `with` block."""
    with closing(Session(target, "listing")) as session:
        for number in range(count):
            session.channel.queue_declare(f"{PREFIX}{number}", durable=True)
    try:
        yield
    finally:
        with closing(Session(target, "listing")) as session:
            for number in range(count):
                session.channel.queue_delete(f"{PREFIX}{number}")


def measure(place: Place, seconds: float, pace: Pace, page_size: int) -> dict[str, dict[str, float]]:
    """Return the figures of the client (`load.pump.latency`) while nobody asks and while somebody lists, and those of
    the answers.
    """
    lister = Lister(place, page_size)
    calm = pump.latency(place.target, None, seconds, pace)
    listed = pump.latency(place.target, None, seconds, pace, lister)
    listed["pages"] = len(lister.seconds) / seconds
    listed["page_ms"] = statistics.median(lister.seconds) * 1000
    return {"without": calm, "listed": listed}


COLUMNS: Final = {
    "messages_per_second": "messages/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "pages": "pages/s",
    "page_ms": "page ms",
}
"""The titles of the table, by figure."""


def listing(
    a: Annotated[str, typer.Option(help="URL of broker A, amqp://")],
    a_api: Annotated[str, typer.Option(help="URL of its management API, http://")],
    b: Annotated[str | None, typer.Option(help="URL of broker B, measured in turn with A")] = None,
    b_api: Annotated[str | None, typer.Option(help="URL of the management API of B")] = None,
    queues: Annotated[int, typer.Option(min=1, max=QUEUES_MAX, help="queues to list")] = 10_000,
    page_size: Annotated[int, typer.Option(min=1, max=500, help="queues of a page")] = 500,
    messages: Annotated[float, typer.Option(min=1, help="messages a second of the client")] = 2000,
    seconds: Annotated[float, typer.Option(min=0.1, max=SECONDS_MAX, help="length of each measurement")] = 5,
    runs: Annotated[int, typer.Option(min=1, help="runs on each broker")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the figures of every run here")] = None,
) -> None:
    """Measure the rate and the latency of a connected client while somebody lists all queues, and while nobody does."""
    pace = Pace(Shape(size=256, burst=1, prefetch=100), messages)
    results: dict[str, list[dict[str, dict[str, float]]]] = {}
    given = (("A", a, a_api), ("B", b, b_api))
    try:
        places = {name: Place(Target.parse(url), api) for name, url, api in given if url and api}
        for place in places.values():
            wire.check(place.target)
        for name, place in places.items():
            with declared(place.target, queues):
                results[name] = [measure(place, seconds, pace, page_size) for _ in range(runs)]
    except (ValueError, OSError, EOFError, AMQPError) as error:
        typer.echo(f"listing: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(heading(COLUMNS))
    for name in places:
        for course in ("without", "listed"):
            typer.echo(row(COLUMNS, name, course, results[name]))
    if json_file is not None:
        json_file.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    typer.run(listing)
