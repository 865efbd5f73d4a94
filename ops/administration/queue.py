"""`penstock queue`: the places of queues, and moves."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from ops.administration.node import AsJson, ask, show
from ops.errors import CommandError
from ops.naming import Data

app = typer.Typer(help="Queues of a running node: list their shards, move them.", no_args_is_help=True)

COLUMNS = ("vhost", "name", "shard", "durable", "immovable")
DONE = ("moved", "already-there")

Vhost = Annotated[str, typer.Argument(metavar="VHOST", help="virtual host of the queue", show_default=False)]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="name of the queue", show_default=False)]
Shard = Annotated[int, typer.Argument(metavar="SHARD", help="number of the target shard", show_default=False)]


@app.command("list")
def list_(
    vhost: Annotated[str | None, typer.Option("--vhost", help="only this vhost", show_default=False)] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List queues with their shards, and the reason for each that cannot be moved."""
    show(ask(data, "placement", vhost=vhost)["queues"], COLUMNS, as_json)


@app.command()
def move(vhost: Vhost, queue: Queue, shard: Shard, data: Data = None, as_json: AsJson = False) -> None:
    """Move a queue with its messages to another shard, while it is in use.

    Its producers and consumers wait meanwhile; nothing is lost, repeated or reordered. Exit status 2 if it was not
    moved: it is then where it was.
    """
    found = ask(data, "queue_move", vhost=vhost, name=queue, shard=shard, placement_version=None, plan=None)
    if as_json:
        print(orjson.dumps(found).decode())
    elif found["result"] in DONE:
        print(_describe(found, vhost, queue, shard))
    if found["result"] not in DONE:
        raise CommandError(f"queue '{queue}' in vhost '{vhost}' is not moved, {found['result']}: {found['reason']}")


@app.command()
def abort(vhost: Vhost, queue: Queue, data: Data = None) -> None:
    """Roll back the move of a queue, unless it has been completed."""
    rolled_back = ask(data, "queue_move_abort", vhost=vhost, name=queue)
    print("the move is rolled back" if rolled_back else "there is no move to roll back")


def _describe(found: dict[str, Any], vhost: str, queue: str, shard: int) -> str:
    if found["result"] == "already-there":
        return f"queue '{queue}' in vhost '{vhost}' lives on shard {shard} already"
    size = f"{found['messages']} messages, {found['bytes']} bytes"
    return f"queue '{queue}' in vhost '{vhost}' lives on shard {shard} now: {size}, held for {found['pause_ms']} ms"
