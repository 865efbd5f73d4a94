"""The commands of `penstock shard`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import orjson
import typer

from ops.administration.node import AsJson, show
from ops.errors import CommandError
from ops.naming import Data
from ops.rebalance.command import (
    BytesRate,
    MessagesRate,
    directory_of,
    given_limits,
)
from ops.rebalance.configured import limits_of, rules_of
from ops.rebalance.node import RunningNode
from ops.rebalance.records import Records
from ops.selection import Sort, Where, selected_rows
from ops.shards.draining import Drain
from penstock.control.control import Refusal
from penstock.memory.gauges import STATE_NAMES
from penstock.text.utf8 import readable

app = typer.Typer(
    no_args_is_help=True,
)

COLUMNS = ("shard", "state", "process", "pid", "queues", "ready", "unacked", "bytes", "stored")
START_SECONDS = 60.0
"""How long a new shard may take to serve, and a removed one to end."""
STORE_SECONDS = 10.0
"""How long a shard's store may take to drop the queues that have left; the shard reports that once a second."""
POLL_SECONDS = 0.5

Facts = dict[str, Any]
Index = Annotated[int, typer.Argument(metavar="SHARD", help="number of the shard", show_default=False)]


@app.command("list")
def list_(where: Where = None, sort: Sort = None, data: Data = None, as_json: AsJson = False) -> None:
    """List the shards: state (starting, serving, draining, leaving), process, and contents.

    Example: penstock shard list --where state=draining
    """
    show(selected_rows(shard_rows(RunningNode(data)), where, sort), COLUMNS, as_json)


@app.command()
def add(
    count: Annotated[int, typer.Argument(metavar="[N]", min=1, help="number of shards to add")] = 1,
    force: Annotated[bool, typer.Option("--force", help="even if a store exceeds its new share")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Start more shards. New queues are placed on them as well; `penstock rebalance plan` moves existing ones there.

    All shards share the limits of the node (memory_limit, store.limit, store.spill_limit), so the share of each gets
    smaller.

    Example: penstock shard add 2
    """
    node = RunningNode(data)
    present = _ask(node, "shard_list")
    if not force:
        _check_shares(node, len(present) + count)
    added = [_ask(node, "shard_add") for _ in range(count)]
    _wait(
        lambda: all(_states(node).get(shard) == "serving" for shard in added),
        f"not all of {', '.join(map(str, added))} are serving yet",
    )
    if as_json:
        print(orjson.dumps({"added": added}).decode())
    else:
        for shard in added:
            print(f"shard {shard} is serving")


@app.command()
def drain(
    shard: Index,
    messages_per_second: MessagesRate = None,
    bytes_per_second: BytesRate = None,
    data: Data = None,
) -> None:
    """Place no more queues on a shard, and move those on it to others, live, one by one.

    Ctrl-C or `penstock rebalance abort` ends it; repeat the command to continue. `penstock shard undrain` lets the
    shard take queues again. Exit status 1 if queues remain: each is named, with the reason.

    Example: penstock shard drain 3 --bytes-per-second '50 MB'
    """
    node, records = RunningNode(data), Records(directory_of(data))
    _ask(node, "shard_drain", shard=shard)
    given = given_limits(messages_per_second, bytes_per_second, None, None, None, None)
    limits = replace(limits_of(node.settings.rebalance), **given)
    draining = Drain(node, records, shard, rules_of(node.settings.rebalance), limits, _print_line)
    left = draining.run()
    for (vhost, name), reason in left.items():
        _print_line(f"queue '{name}' in vhost '{vhost}' stays: {reason}")
    if left:
        _print_line(f"shard {shard} takes no queues; {draining.moved} have left it, {len(left)} remain")
        raise typer.Exit(1)
    _print_line(
        f"shard {shard} is empty, {draining.moved} queues have left it: `penstock shard remove {shard}` removes it"
    )


@app.command()
def undrain(shard: Index, data: Data = None) -> None:
    """Let a drained shard take queues again. Queues that have left it stay where they are.

    Example: penstock shard undrain 3
    """
    _ask(RunningNode(data), "shard_undrain", shard=shard)
    print(f"shard {shard} takes queues")


@app.command()
def remove(shard: Index, data: Data = None) -> None:
    """Remove a shard for good, once it is drained and empty. Its store is deleted.

    Example: penstock shard remove 3
    """
    node = RunningNode(data)
    deadline = time.monotonic() + STORE_SECONDS
    while True:
        try:
            node.ask("shard_remove", shard=shard)
            break
        except Refusal as refusal:
            facts = next((each for each in _ask(node, "shard_list") if each["shard"] == shard), None)
            empty = facts is not None and facts["state"] == "draining" and not facts["queues"]
            if not empty or time.monotonic() > deadline:
                raise CommandError(str(refusal)) from None
        time.sleep(POLL_SECONDS)
    _wait(lambda: shard not in _states(node), f"shard {shard} has not ended yet")
    print(f"shard {shard} removed")


def shard_rows(node: RunningNode) -> list[Facts]:
    """Return the shards of a node with their figures from the gauges; bytes are those of whole messages."""
    homes = {each["id"]: each["shard"] for each in node.placement()["queues"]}
    found = []
    queues = [(homes.get(id), gauge) for id, gauge in node.gauges.queues_by_id().items()]
    for each in _ask(node, "shard_list"):
        index = each["shard"]
        process = node.gauges.process_read("shard", index)
        own = [gauge for home, gauge in queues if home == index]
        found.append(
            {
                **{name: each[name] for name in ("shard", "state", "queues", "moves")},
                "process": STATE_NAMES[process.state],
                "pid": process.pid,
                "ready": sum(gauge.ready for gauge in own),
                "unacked": sum(gauge.unacked for gauge in own),
                "bytes": sum(gauge.whole_bytes for gauge in own),
                "stored": node.gauges.measures_read("shard", index).stored_bytes,
            }
        )
    return found


def _check_shares(node: RunningNode, shards: int) -> None:
    """Raise CommandError if a store exceeds the share that it would have among this many shards."""
    store = node.settings.store
    share = store.limit // shards * store.stop_percent // 100
    for each in shard_rows(node):
        stored = each["stored"]
        if share and stored > share:
            raise CommandError(
                f"shard {each['shard']} has {stored} bytes in its store and may have {share} as one of {shards}: "
                "it would hold its producers until the store is smaller. Raise store.limit, or use --force"
            )


def _states(node: RunningNode) -> dict[int, str]:
    return {each["shard"]: each["state"] for each in _ask(node, "shard_list")}


def _ask(node: RunningNode, command: str, **arguments: Any) -> Any:
    try:
        return node.ask(command, **arguments)
    except Refusal as refusal:
        raise CommandError(str(refusal)) from None


def _wait(reached: Callable[[], bool], otherwise: str) -> None:
    """Wait for a condition. CommandError if it takes too long; the router may be restarted meanwhile."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            if reached():
                return
        except CommandError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise CommandError(f"{otherwise}: see the log, and `penstock shard list`")
        time.sleep(POLL_SECONDS)


def _print_line(line: str) -> None:
    print(readable(line), flush=True)
