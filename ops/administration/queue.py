"""`penstock queue`: queues, their messages and places, and moves."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from ops.administration import messages
from ops.administration.input import confirm, counted, json_object
from ops.administration.node import AsJson, ask, gauges_of, show
from ops.administration.processes import Facts, Processes
from ops.errors import CommandError
from ops.naming import Data
from ops.selection import Sort, Where, selected_rows

app = typer.Typer(no_args_is_help=True)

COLUMNS = ("vhost", "name", "ready", "unacked", "consumers", "shard", "durable", "immovable")
COUNTS = ("ready", "unacked", "consumers")
DONE = ("moved", "already-there")

InVhost = Annotated[str, typer.Option("--vhost", metavar="VHOST", help="its vhost")]
Vhost = Annotated[str, typer.Argument(metavar="VHOST", help="virtual host of the queue", show_default=False)]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="name of the queue", show_default=False)]
Shard = Annotated[int, typer.Argument(metavar="SHARD", help="number of the target shard", show_default=False)]


@app.command("list")
def list_(
    vhost: Annotated[str | None, typer.Option("--vhost", help="only this vhost", show_default=False)] = None,
    where: Where = None,
    sort: Sort = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List queues with their messages, consumers and shards, and the reason for each that cannot be moved.

    Example: penstock queue list --where 'name=eu.*' --where 'ready>0' --sort ready
    """
    placed, gauges = ask(data, "placement", vhost=vhost)["queues"], gauges_of(data).queues_by_id()
    found = [{**queue, **{name: getattr(gauges.get(queue["id"]), name, None) for name in COUNTS}} for queue in placed]
    show(selected_rows(found, where, sort), COLUMNS, as_json)


@app.command()
def declare(
    queue: Queue,
    vhost: InVhost = "/",
    durable: Annotated[bool, typer.Option("--durable/--transient", help="whether it survives a restart")] = True,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="deleted with its last consumer")] = False,
    arguments: Annotated[str, typer.Option("--arguments", metavar="JSON", help="arguments of queue.declare")] = "{}",
    data: Data = None,
) -> None:
    """Declare a queue. An existing one stays, and is refused if it has other properties.

    Example: penstock queue declare orders --arguments '{"x-max-length": 10000, "x-overflow": "flow"}'
    """
    found = Processes(data).command(
        "queue_declare", vhost=vhost, name=queue, durable=durable, auto_delete=auto_delete,
        arguments=json_object(arguments, "--arguments"),
    )  # fmt: skip
    print(f"queue '{queue}' declared" if found["new"] else f"queue '{queue}' exists, with {found['messages']} messages")


@app.command()
def purge(queue: Queue, vhost: InVhost = "/", data: Data = None) -> None:
    """Drop the ready messages of a queue. Unacked ones stay with their consumers.

    Example: penstock queue purge orders --vhost shop
    """
    dropped = Processes(data).command("queue_purge", vhost=vhost, name=queue)
    print(f"{counted(dropped)} dropped from queue '{queue}'")


@app.command()
def delete(
    queue: Queue,
    vhost: InVhost = "/",
    if_unused: Annotated[bool, typer.Option("--if-unused", help="only if it has no consumers")] = False,
    if_empty: Annotated[bool, typer.Option("--if-empty", help="only if it has no ready messages")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask, whatever it has")] = False,
    data: Data = None,
) -> None:
    """Delete a queue with its messages; its consumers are cancelled. It asks first if the queue has ready messages.

    Example: penstock queue delete orders --if-unused
    """
    processes = Processes(data)
    if not yes and not if_empty:
        ready = _find(processes, vhost, queue)["ready"]
        if ready:
            confirm(f"Delete queue '{queue}' with {counted(ready)}?", f"queue '{queue}' is not deleted")
    lost = processes.command("queue_delete", vhost=vhost, name=queue, if_unused=if_unused, if_empty=if_empty)
    print(f"queue '{queue}' deleted, with {counted(lost)}")


@app.command()
def get(
    queue: Queue,
    vhost: InVhost = "/",
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="how many messages")] = 10,
    skip: Annotated[int, typer.Option("--skip", metavar="N", min=0, help="how many to pass over first")] = 0,
    body_bytes: Annotated[
        int, typer.Option("--body-bytes", metavar="N", min=0, help="bytes of each body to show")
    ] = 1000,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show the first ready messages of a queue, fewer if they are large (8 MiB in all).

    They stay there as they are, and are not marked as redelivered.

    Example: penstock queue get orders --count 3
    """
    processes = Processes(data)
    found = _find(processes, vhost, queue)
    answer = processes.ask(
        "shard", found["shard"], "messages", id=found["id"], skip=skip, count=count, body_bytes=body_bytes
    )  # fmt: skip
    shown = [messages.shown(each) for each in answer["messages"]]
    if as_json:
        print(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode())
        return
    for number, each in enumerate(shown, skip + 1):
        print("\n".join(messages.lines(number, each)))
    print(f"{len(shown)} of {counted(answer['ready'])} ready")


@app.command()
def move(vhost: Vhost, queue: Queue, shard: Shard, data: Data = None, as_json: AsJson = False) -> None:
    """Move a queue with its messages to another shard, while it is in use.

    Its producers and consumers wait meanwhile; nothing is lost, repeated or reordered. Exit status 2 if it was not
    moved: it is then where it was.

    Example: penstock queue move / orders 2
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
    """Roll back the move of a queue, unless it has been completed.

    Example: penstock queue abort / orders
    """
    rolled_back = ask(data, "queue_move_abort", vhost=vhost, name=queue)
    print("the move is rolled back" if rolled_back else "there is no move to roll back")


def _find(processes: Processes, vhost: str, queue: str) -> Facts:
    found: Facts | None = processes.command("queue", vhost=vhost, name=queue)
    if found is None:
        raise CommandError(f"there is no queue '{queue}' in vhost '{vhost}'")
    return found


def _describe(found: dict[str, Any], vhost: str, queue: str, shard: int) -> str:
    if found["result"] == "already-there":
        return f"queue '{queue}' in vhost '{vhost}' lives on shard {shard} already"
    size = f"{found['messages']} messages, {found['bytes']} bytes"
    return f"queue '{queue}' in vhost '{vhost}' lives on shard {shard} now: {size}, held for {found['pause_ms']} ms"
