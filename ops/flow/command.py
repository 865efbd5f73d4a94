"""The commands of `penstock flow`."""

from __future__ import annotations

import time
from typing import Annotated, Any

import orjson
import typer

from console.flow.chain import explained, on_rung
from ops.administration.node import AsJson, ask, show_rows
from ops.administration.processes import Facts, Processes
from ops.errors import CommandError
from ops.flow import asking, hold_offs
from ops.flow.explain import explain
from ops.flow.history import events, incidents, ledger
from ops.naming import Data
from ops.operator_name import operator_name
from ops.selection import Sort, Where, selected_rows
from penstock.text.durations import seconds_of, shown

app = typer.Typer(
    invoke_without_command=True,
)

HELD_COLUMNS = ("connection", "channel", "client", "user", "held_for", "how", "waits_for", "resumes_in")
UNREAD_COLUMNS = ("connection", "client", "user", "unread_for", "bytes", "reason")
STOP_COLUMNS = ("number", "what", "author", "reason", "for_so_long", "left")

Vhost = Annotated[
    str | None, typer.Option("--vhost", metavar="VHOST", help="publishes in this vhost", show_default=False)
]
Exchange = Annotated[
    str | None, typer.Option("--exchange", metavar="NAME", help="publishes to this exchange", show_default=False)
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="PATTERN",
        help="publishes with a matching routing key: * is one word, # any words",
        show_default=False,
    ),
]
Queue = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="publishes to this queue", show_default=False)
]
User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="publishes by this user", show_default=False)]
Connection = Annotated[
    str | None, typer.Option("--connection", metavar="ID", help="publishes on this connection", show_default=False)
]
All = Annotated[bool, typer.Option("--all", help="all producers")]


app.command()(explain)
app.add_typer(hold_offs.app, name="hold-offs")
app.command()(ledger)
app.command()(incidents)
app.command()(events)


@app.callback()
def held(
    context: typer.Context, where: Where = None, sort: Sort = None, data: Data = None, as_json: AsJson = False
) -> None:
    """List the held channels: connection, client, user, for how long, how, what they wait for, when they resume.

    Example: penstock flow --where user=ann --sort held_seconds
    """
    if context.invoked_subcommand is not None:
        return
    processes = Processes(data)
    channels = asking.held(processes)
    slots = {cause["slot"] for channel in channels for cause in channel["causes"] if "slot" in cause}
    drained = asking.drained(processes, slots)
    now = time.time()
    for each in channels:
        for cause in each["causes"]:
            cause.update(drained.get(cause.get("slot"), {}))
            if cause.get("until") is not None:
                cause["resumes_in"] = round(max(cause["until"] - now, 0), 1)
    show_rows(selected_rows(channels, where, sort), HELD_COLUMNS, _row, "no producer is held", as_json, ("waits_for",))


@app.command()
def why(
    connection: Annotated[str, typer.Argument(metavar="CONNECTION", help="its id, from `penstock flow`")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Explain what a connection waits for, which consumers should make room there, and what keeps them from it.

    Example: penstock flow why 0.1.17
    """
    lines = explained(asking.situation(Processes(data)), connection)
    if not lines:
        raise CommandError(f"connection {connection} is not held")
    if as_json:
        print(orjson.dumps([{"depth": depth, "text": text} for depth, text in lines]).decode())
        return
    for depth, text in lines:
        print("  " * depth + text)


@app.command()
def unread(where: Where = None, sort: Sort = None, data: Data = None, as_json: AsJson = False) -> None:
    """List connections that are not read, as the broker keeps too much for them: answers they do not read, bodies.

    Example: penstock flow unread --json
    """
    found = selected_rows(asking.unread(Processes(data)), where, sort)
    show_rows(found, UNREAD_COLUMNS, _unread_row, "all connections are read", as_json)


@app.command()
def stop(
    every: All = False,
    vhost: Vhost = None,
    exchange: Exchange = None,
    key: Key = None,
    queue: Queue = None,
    user: User = None,
    connection: Connection = None,
    time_limit: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="such as 90 s, 10m, 2 h; unlimited by default")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="shown to clients and operators")] = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Stop producers: publishes that match all given options wait until `penstock flow start`.

    They wait as at a full queue: clients are notified, nothing is lost, consumers go on. A stop survives a restart of
    the node, unless it names a connection.

    Example: penstock flow stop --queue orders --for 10m --reason maintenance
    """
    names = _selector(every, vhost, exchange, key, queue, user, connection)
    try:
        seconds = None if time_limit is None else seconds_of(time_limit)
    except ValueError as error:
        raise CommandError(f"--for: {error}") from None
    made = ask(data, "flow_stop", author=operator_name(), reason=reason, seconds=seconds, **names)
    show_rows([made], STOP_COLUMNS, _stop_row, "", as_json)


@app.command()
def start(
    number: Annotated[
        int | None,
        typer.Argument(metavar="[NUMBER]", help="of the stop, from `penstock flow stops`", show_default=False),
    ] = None,
    every: All = False,
    vhost: Vhost = None,
    exchange: Exchange = None,
    key: Key = None,
    queue: Queue = None,
    user: User = None,
    connection: Connection = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Lift a stop, by its number or by the same options that made it. Other stops stay.

    Example: penstock flow start --queue orders
    """
    if number is not None:
        lifted = [ask(data, "flow_lift", number=number)]
    else:
        lifted = ask(data, "flow_start", **_selector(every, vhost, exchange, key, queue, user, connection))
        if not lifted:
            raise CommandError("there is no such stop; `penstock flow stops` lists them")
    show_rows(lifted, STOP_COLUMNS, _stop_row, "", as_json)


@app.command()
def stops(where: Where = None, sort: Sort = None, data: Data = None, as_json: AsJson = False) -> None:
    """List the operator's stops.

    Example: penstock flow stops --json
    """
    found = selected_rows(ask(data, "flow_stops"), where, sort)
    show_rows(found, STOP_COLUMNS, _stop_row, "nothing is stopped", as_json)


def _selector(
    every: bool, vhost: str | None, exchange: str | None, key: str | None, queue: str | None, user: str | None,
    connection: str | None,
) -> dict[str, str | None]:  # fmt: skip
    """Return the selection to stop or start. Exchange, key and queue are in the vhost "/" unless one is named."""
    if vhost is None and any(name is not None for name in (exchange, key, queue)):
        vhost = "/"
    names = {"vhost": vhost, "exchange": exchange, "key": key, "queue": queue, "user": user, "connection": connection}
    if every == any(name is not None for name in names.values()):
        raise CommandError("give --all, or any of --vhost, --exchange, --key, --queue, --user, --connection")
    return names


def _row(held: Facts) -> dict[str, Any]:
    causes = held["causes"]
    times = [cause.get("resumes_in") for cause in causes]
    known = [seconds for seconds in times if seconds is not None]
    return {
        **{column: held[column] for column in ("connection", "channel", "client", "user")},
        "held_for": shown(held["held_seconds"]),
        "how": _how(held),
        "waits_for": "; ".join(cause["text"] for cause in causes),
        "resumes_in": f"about {shown(max(known))}" if known and len(known) == len(times) else "unknown",
    }


def _unread_row(unread: Facts) -> dict[str, Any]:
    return {**unread, "unread_for": shown(unread["unread_seconds"])}


def _how(held: Facts) -> list[str]:
    parked = held["parked_bytes"]
    return [
        *held["notified_by"],
        *(["confirms withheld"] if held["withheld"] else []),
        *([f"{parked} bytes parked"] if parked else []),
        *(["paused"] if held["paused"] else []),
        *(["ignores channel.flow"] if held["ignores_flow"] else []),
        *([f"allowance used up: {held['spent']}"] if held["spent"] else []),
        *([on_rung(held["rung"])] if held["rung"] else []),
    ]


def _stop_row(stop: Facts) -> Facts:
    now = time.time()
    return {
        **stop,
        "what": _what(stop),
        "for_so_long": shown(now - stop["since"]),
        "left": "for ever" if stop["until"] is None else shown(max(stop["until"] - now, 0)),
    }


def _what(stop: Facts) -> str:
    names = ("connection", "user", "queue", "key", "exchange", "vhost")
    return ", ".join(f"{name} {stop[name]}" for name in names if stop[name] is not None) or "all producers"
