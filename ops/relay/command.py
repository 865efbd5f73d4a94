"""`penstock message`: messages that an operator moves from queue to queue."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from ops.administration.input import counted, url_in
from ops.errors import CommandError
from ops.naming import Data
from ops.relay.browsed import Browsed
from ops.relay.core import Ending, Relay
from ops.relay.dead_letters import way_back, way_to_queue
from ops.relay.delivery import Delivery, Way
from ops.relay.export_file import deliveries_in, line_of, lines_in
from ops.relay.feed import Feed
from ops.relay.running import Job, Wishes, fed, finish, local_url, relayed
from ops.relay.selecting import Selection
from ops.store.progress import progress
from penstock.client.unconfirmed import Destination
from penstock.files.directories import private

app = typer.Typer(no_args_is_help=True)

Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL",
        help="amqp://USER:PASSWORD@HOST:PORT/VHOST, or @FILE that contains it; default: this node, as guest",
        callback=url_in, show_default=False,
    ),
]  # fmt: skip
InVhost = Annotated[str, typer.Option("--vhost", metavar="VHOST", help="the vhost, without --url")]
Count = Annotated[
    int | None, typer.Option("--count", metavar="N", min=1, help="how many messages at most", show_default=False)
]
Rate = Annotated[
    float | None,
    typer.Option("--rate", metavar="N", min=0.001, help="how many messages a second at most", show_default=False),
]
Prefetch = Annotated[
    int,
    typer.Option("--prefetch", metavar="N", min=1, max=65535, help="how many are fetched and not acked, at most"),
]

Header = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=VALUE", help="only with this header; several: all", show_default=False),
]
OlderThan = Annotated[
    float | None,
    typer.Option(
        "--older-than", metavar="SECONDS", min=0, help="only with an older timestamp property", show_default=False
    ),
]
Skip = Annotated[int, typer.Option("--skip", metavar="N", min=0, help="how many to pass over first")]


@app.command()
def move(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="queue to take them from", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="queue to put them into", show_default=False)],
    url: Url = None,
    vhost: InVhost = "/",
    count: Count = None,
    header: Header = None,
    older_than: OlderThan = None,
    rate: Rate = None,
    prefetch: Prefetch = 250,
    data: Data = None,
) -> None:
    """Move the messages of a queue to another one, as many as are ready now.

    Each leaves its queue once the other has confirmed it. Ctrl-C stops; the next run goes on. Those without the header
    or age stay in their places, marked as redelivered; the search ends (exit status 1) after --prefetch of them.

    Example: penstock message move orders.failed orders --header customer=42 --count 100
    """
    if source == target:
        raise CommandError("source and target are the same queue")
    selection, way = Selection(header or [], older_than), Way(Destination("", target))
    at = url or local_url(data, vhost)

    def router(delivery: Delivery) -> Way | None:
        return way if selection.has(delivery, time.time()) else None

    core = relayed(f"moving to {target}", at, at, Job(source, target, router), Wishes(prefetch, count, rate))
    finish(f"moved to queue '{target}'", core)


@app.command()
def redrive(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="queue with dead letters", show_default=False)],
    url: Url = None,
    vhost: InVhost = "/",
    to_queue: Annotated[
        bool, typer.Option("--to-queue", help="straight to the queue in which they died, past its exchange")
    ] = False,
    count: Count = None,
    rate: Rate = None,
    prefetch: Prefetch = 250,
    data: Data = None,
) -> None:
    """Send dead letters back to the exchange to which they were published first, as many as are ready now.

    If that exchange does not exist any more, or has no route, they go to the queue in which they died first. Others
    stay. Ctrl-C stops; the next run goes on.

    Example: penstock message redrive orders.dead --rate 100
    """
    at = url or local_url(data, vhost)
    router = way_to_queue if to_queue else way_back
    core = relayed(f"redriving {queue}", at, at, Job(queue, None, router), Wishes(prefetch, count, rate))
    finish("redriven", core)


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="queue of this node, which stays as it is")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="queue to put copies into", show_default=False)],
    url: Url = None,
    vhost: InVhost = "/",
    count: Count = None,
    skip: Skip = 0,
    header: Header = None,
    older_than: OlderThan = None,
    rate: Rate = None,
    prefetch: Prefetch = 250,
    data: Data = None,
) -> None:
    """Copy the messages of a queue of this node to another queue, here or at --url, as many as are ready now.

    They stay in their queue as they are, and are not marked as redelivered. If it is stopped it says with which --skip
    it goes on.

    Example: penstock message copy orders orders.test --count 100
    """
    if source == target and url is None:
        raise CommandError("source and target are the same queue")
    selection, way = Selection(header or [], older_than), Way(Destination("", target))
    browsed = Browsed(data, vhost, source)
    feed = Feed(
        browsed.deliveries(skip), browsed.ready - skip, prefetch, lambda delivery: selection.has(delivery, time.time())
    )
    wishes = Wishes(prefetch, count, rate)
    core = fed(f"copying to {target}", feed, url or local_url(data, vhost), target, lambda _: way, wishes)
    finish(f"copied to queue '{target}'", core, _next(core, skip + feed.position))


@app.command("export")
def export_(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="queue of this node", show_default=False)],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the file to write, JSON lines", show_default=False)],
    vhost: InVhost = "/",
    data: Data = None,
) -> None:
    """Write the messages of a queue to a file, as many as are ready now. They stay in the queue as they are.

    The file is there when it is whole.

    Example: penstock message export orders.failed failed.jsonl
    """
    browsed = Browsed(data, vhost, queue)
    exported = 0
    unfinished = file.with_name(f"{file.name}.new")
    try:
        with open(unfinished, "wb", opener=private) as written, progress("exporting", browsed.ready) as step:
            for message in browsed.messages():
                written.write(line_of(message))
                exported += 1
                step(1)
            written.flush()
            os.fsync(written.fileno())
        unfinished.replace(file)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    print(f"{counted(exported)} of queue '{queue}' exported")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="messages, exported before", show_default=False)],
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="queue to put them into", show_default=False)],
    url: Url = None,
    vhost: InVhost = "/",
    count: Count = None,
    skip: Skip = 0,
    rate: Rate = None,
    prefetch: Prefetch = 250,
    data: Data = None,
) -> None:
    """Publish the messages of a file to a queue, with confirms. If it is stopped it says with which --skip it goes on.

    Example: penstock message import failed.jsonl orders --rate 100
    """
    way = Way(Destination("", queue))
    feed = Feed(deliveries_in(file, skip), max(lines_in(file) - skip, 0), prefetch)
    wishes = Wishes(prefetch, count, rate)
    core = fed(f"importing to {queue}", feed, url or local_url(data, vhost), queue, lambda _: way, wishes)
    finish(f"imported to queue '{queue}'", core, _next(core, skip + feed.position))


def _next(core: Relay, position: int) -> str:
    """Return how to go on, unless all is done."""
    return "" if core.ending is Ending.DONE else f"; --skip {position} goes on"
