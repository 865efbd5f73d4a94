"""`penstock flow ledger`, `incidents` and `events`: the times for which producers were held, and past flow events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from console.flow.accounts import By, summed
from ops.administration.node import AsJson, show_rows
from ops.administration.processes import Facts, Processes
from ops.naming import Data, data_directory
from ops.selection import Sort, Where, selected_rows
from penstock.limits.watermarks import depth_of_mark
from penstock.text.durations import shown

ACCOUNT_COLUMNS = ("vhost", "name", "held_for", "stops")
INCIDENT_COLUMNS = ("begun", "lasted", "what", "cause", "holds", "held_for", "victims", "actions")
EVENT_COLUMNS = ("at", "event", "vhost", "queue", "messages", "bytes", "more")
EVENT_FIELDS = ("count", "stop_count", "resume_count", "stop_bytes", "resume_bytes")
SHOWN_VICTIMS = 3

Last = Annotated[int, typer.Option(metavar="N", min=1, help="how many of those that --where selects, the latest first")]


def ledger(
    by: Annotated[By, typer.Option(help="account to sum up by")] = "queue",
    where: Where = None,
    sort: Sort = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Sum up for how long producers have been held since the node started, longest first.

    Example: penstock flow ledger --by user --where 'stops>1'
    """
    found = summed(Processes(data).ask_acceptors("ledger"), by)
    show_rows(selected_rows(found, where, sort), ACCOUNT_COLUMNS, _account_row, "no producer was held", as_json)


def incidents(
    last: Last = 20,
    where: Where = None,
    sort: Sort = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List past deadlocks and stops: cause, held producers, actions. Stops of less than a second that recur within a
    minute are summed up. The node need not run.

    Example: penstock flow incidents --last 5 --where kind=deadlock
    """
    from console.flow.incidents import incidents as collected  # not at the top: it imports the log

    found = selected_rows(collected(data_directory(data)), where, None)[:last]
    show_rows(selected_rows(found, None, sort), INCIDENT_COLUMNS, _incident_row, "there were no incidents", as_json)


def events(
    last: Last = 20,
    where: Where = None,
    sort: Sort = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the flow events of queues (near, stop, resume, limits, escalation) and of certificates that expire. The node
    need not run.

    Example: penstock flow events --last 100 --where 'queue=eu.*' --where event=stop
    """
    from console.flow.incidents import events as recorded  # not at the top: it imports the log

    found = selected_rows(recorded(data_directory(data)), where, None)[:last]
    show_rows(selected_rows(found, None, sort), EVENT_COLUMNS, _event_row, "there were no events", as_json)


def _account_row(account: Facts) -> dict[str, Any]:
    return {**account, "held_for": shown(account["seconds"])}


def _event_row(event: Facts) -> dict[str, Any]:
    more = {name: each for name, each in event.items() if name not in {*EVENT_FIELDS, *EVENT_COLUMNS}}
    return {
        **event,
        "at": datetime.fromtimestamp(event["at"], UTC).isoformat(sep=" ", timespec="milliseconds"),
        "messages": _depth(event, "count", "stop_count"),
        "bytes": _depth(event, "bytes", "stop_bytes"),
        "more": [f"{name} {each}" for name, each in more.items()],
    }


def _depth(event: Facts, depth: str, mark: str) -> str:
    """Format the depth of an event's queue; "" for an event of none."""
    return depth_of_mark(event[depth], event[mark]) if depth in event else ""


def _incident_row(incident: Facts) -> dict[str, Any]:
    victims = [f"{each['user']} at {each['peer']} for {shown(each['held_seconds'])}" for each in incident["victims"]]
    more = [f"and {len(victims) - SHOWN_VICTIMS} more"] if len(victims) > SHOWN_VICTIMS else []
    return {
        "begun": datetime.fromtimestamp(incident["begun"], UTC).isoformat(sep=" ", timespec="seconds"),
        "lasted": _lasted(incident),
        "what": _what(incident),
        "cause": incident["cause"],
        "holds": incident["holds"],
        "held_for": shown(incident["held_seconds"]),
        "victims": [*victims[:SHOWN_VICTIMS], *more],
        "actions": [f"{action} {count}" for action, count in incident["actions"].items()],
    }


def _what(incident: Facts) -> str:
    if incident["queue"] is None:
        return f"{incident['kind']}: {incident['of']}" if incident["of"] != incident["cause"] else incident["kind"]
    what = f"queue {incident['queue']} in vhost {incident['vhost']}"
    return f"deadlock, {what}" if incident["kind"] == "deadlock" else what


def _lasted(incident: Facts) -> str:
    if incident["stops"] == 1:
        return shown(incident["seconds"])
    within = shown(incident["ended"] - incident["begun"])
    return f"{incident['stops']} times in {within}: {shown(incident['seconds'])}, {shown(incident['longest'])} at most"
