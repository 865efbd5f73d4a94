"""`penstock migrate`: the messages of another AMQP 0-9-1 broker, while its producers and consumers are moved over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ops.administration.definitions import import_file, read
from ops.administration.input import url_in
from ops.errors import CommandError
from ops.naming import Data
from ops.relay.addresses import parameters, place_of
from ops.relay.command import Prefetch, Rate
from ops.relay.core import Ending
from ops.relay.delivery import Way
from ops.relay.running import STOPPED, Job, Wishes, all_relayed, local_url, outcome
from penstock.client.unconfirmed import Destination

MOST_QUEUES = 200
"""Queues of one command: each takes two connections."""


def migrate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="amqp://USER:PASSWORD@HOST:PORT/VHOST, or @FILE that contains it", callback=url_in,
            show_default=False,
        ),
    ],
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUEUE]...", help="its queues; default: those of the definitions", show_default=False),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="URL", help="the target, as above; default: this node, as guest, in the same vhost",
            callback=url_in, show_default=False,
        ),
    ] = None,
    definitions: Annotated[
        Path | None,
        typer.Option(
            "--definitions", metavar="FILE", help="definitions of the source, to import into this node first",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="go on until stopped, while producers are moved")] = False,
    rate: Rate = None,
    prefetch: Prefetch = 250,
    data: Data = None,
) -> None:  # fmt: skip
    """Bring the messages of another broker's queues into the queues of the same names here.

    Each leaves its queue once it is confirmed here. Without --follow as many as are ready now; with it, all that come,
    until Ctrl-C. The next run goes on. With the two URLs exchanged it is the way back. `--rate` is that of each queue.

    Example: penstock migrate amqp://ann:secret@old/shop --definitions definitions.json --follow
    """
    vhost = str(parameters(source).virtual_host)
    names = list(dict.fromkeys(queues or [])) or _queues(definitions, vhost)
    if len(names) > MOST_QUEUES:
        raise CommandError(f"{len(names)} queues are too many for one command: name {MOST_QUEUES} at most")
    if definitions is not None:
        import_file(data, definitions, None)
    target = to or local_url(data, vhost)
    if place_of(parameters(source)) == place_of(parameters(target)):
        raise CommandError("source and target are the same vhost")
    wishes = Wishes(prefetch, rate=rate, follow=follow)
    relays = all_relayed("migrating", source, target, [_job(name) for name in names], wishes)
    for name, relay in zip(names, relays, strict=True):
        print(f"{name}: {outcome('migrated', relay)}")
    failed = [name for name, relay in zip(names, relays, strict=True) if relay.ending is Ending.FAILED]
    if failed:
        raise CommandError(f"{len(failed)} of {len(names)} queues failed: {', '.join(failed)}")
    if any(relay.ending is Ending.STOPPED for relay in relays):
        raise typer.Exit(STOPPED)
    if any(relay.unroutable for relay in relays):
        raise typer.Exit(1)


def _queues(definitions: Path | None, vhost: str) -> Sequence[str]:
    """Return the names of a vhost's queues in a file of definitions."""
    if definitions is None:
        raise CommandError("name queues, or a file with --definitions")
    listed = read(definitions).get("queues", [])
    found = [each["name"] for each in listed if isinstance(each, dict) and each.get("vhost") == vhost]
    if not found:
        raise CommandError(f"{definitions} has no queues of the vhost '{vhost}'")
    return found


def _job(queue: str) -> Job:
    way = Way(Destination("", queue))
    return Job(queue, queue, lambda _: way)
