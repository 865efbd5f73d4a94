"""`penstock relay`: the relays that a running node has."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ops.administration.node import AsJson, show_rows
from ops.administration.processes import Facts, Processes
from ops.errors import CommandError
from ops.naming import Data
from penstock.memory.gauges import UNSTARTED

app = typer.Typer(no_args_is_help=True)

COLUMNS = ("name", "state", "relayed", "reason", "from", "to", "since")
KEPT = ("state", "relayed", "reason")


@app.command("list")
def list_(data: Data = None, as_json: AsJson = False) -> None:
    """List relays: where they lead, how many messages they have relayed, what holds them or makes them fail.

    Example: penstock relay list --json
    """
    processes = Processes(data)
    found = _asked(processes, "relays") if _has_relays(processes) else []
    show_rows(found, COLUMNS, _row, "no relays", as_json, KEPT)


@app.command()
def restart(
    name: Annotated[str, typer.Argument(metavar="NAME", help="relay to restart", show_default=False)],
    data: Data = None,
) -> None:
    """Connect a relay anew, at once if it is failing. Files with URLs are read again.

    Messages that are not confirmed by then may arrive twice.

    Example: penstock relay restart orders
    """
    processes = Processes(data)
    if not _has_relays(processes):
        raise CommandError(f"there is no relay '{name}'")
    _asked(processes, "relay_restart", name=name)
    print(f"relay '{name}' restarts")


def _has_relays(processes: Processes) -> bool:
    return processes.gauges.process_read("relay", 0).state != UNSTARTED


def _asked(processes: Processes, question: str, **arguments: Any) -> Any:
    return processes.ask("relay", 0, question, **arguments)


def _row(relay: Facts) -> Facts:
    return {
        **relay,
        "from": f"{relay['queue']} of {relay['source']}",
        "to": f"{_target(relay)} of {relay['target']}",
        "since": relay["since"].partition(".")[0],
    }


def _target(relay: Facts) -> str:
    if relay["target_queue"] is not None:
        return str(relay["target_queue"])
    exchange = relay["target_exchange"]
    return "their exchanges" if exchange is None else f"exchange {exchange}"
