"""`penstock message`: messages that an operator moves from queue to queue."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ops.errors import CommandError
from ops.naming import Data
from ops.relay.dead_letters import way_back, way_to_queue
from ops.relay.delivery import Delivery, Way
from ops.relay.running import Job, Wishes, finish, local_url, relayed
from ops.relay.selecting import Selection
from penstock.client.unconfirmed import Destination

app = typer.Typer(no_args_is_help=True)

Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="amqp://USER:PASSWORD@HOST:PORT/VHOST; default: this node, as guest",
        show_default=False,
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


@app.command()
def move(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="queue to take them from", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="queue to put them into", show_default=False)],
    url: Url = None,
    vhost: InVhost = "/",
    count: Count = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="only with this header; several: all", show_default=False),
    ] = None,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than", metavar="SECONDS", min=0, help="only with an older timestamp property", show_default=False
        ),
    ] = None,
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
