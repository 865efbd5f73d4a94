"""`penstock restart`: replace processes of a running node while it serves."""

from __future__ import annotations

import time

import typer

from ops.administration.node import ask, gauges_of
from ops.errors import CommandError
from ops.naming import Data
from penstock.memory.gauges import READY, Gauges

EACH_SECONDS = 30.0
"""How long one process may take to be replaced."""
POLL_SECONDS = 0.05

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keep `acceptors` a command of its own though there is no other."""


@app.command()
def acceptors(data: Data = None) -> None:
    """Replace the acceptors one after the other. The port stays open.

    Clients of the acceptor being replaced are disconnected (320 CONNECTION_FORCED) and reconnect; their unacked
    messages are requeued.

    Example: penstock restart acceptors --data /var/lib/penstock
    """
    with gauges_of(data) as gauges:
        before = _incarnations(gauges)
        ask(data, "acceptors_restart")
        for index, incarnation in enumerate(before):
            deadline = time.monotonic() + EACH_SECONDS
            while not _is_replaced(gauges, index, incarnation):
                if time.monotonic() > deadline:
                    raise CommandError(f"acceptor {index} was not replaced in {EACH_SECONDS:g} s; the log says why")
                time.sleep(POLL_SECONDS)
            print(f"acceptor {index} replaced")


def _incarnations(gauges: Gauges) -> list[int]:
    return [gauges.process_read("acceptor", index).incarnation for index in range(gauges.acceptors)]


def _is_replaced(gauges: Gauges, index: int, incarnation: int) -> bool:
    place = gauges.process_read("acceptor", index)
    return not place.torn and place.incarnation > incarnation and place.state == READY
