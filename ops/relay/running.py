"""Relays as commands run them: addresses, progress on a terminal, and the outcome."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ops import port
from ops.administration.input import counted
from ops.administration.processes import Processes
from ops.errors import CommandError
from ops.relay.core import Ending, Relay
from ops.relay.delivery import Router

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that are none to connect to, and theirs of this machine."""

SHOWN_SECONDS = 0.1
"""Between two updates of the progress on a terminal."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a caller wants of a relay: see `Relay`."""

    prefetch: int
    count: int | None = None
    rate: float | None = None
    follow: bool = False


def local_url(data: Path | None, vhost: str) -> str:
    """Return the AMQP URL of the node that runs on a data directory, for `guest`."""
    node = Processes(data).node
    host = WILDCARDS.get(node.host, node.host)
    return f"amqp://guest:guest@{port.show(host, node.port)}/{quote(vhost, safe='')}"


def relayed(
    what: str, source: tuple[str, str], target: tuple[str, str | None], router: Router, wishes: Wishes
) -> Relay:
    """Relay messages, and return the relay once it has ended. `source` is a URL and a queue, `target` a URL and a queue
    that has to exist, if any. CommandError if a URL is none, or pika is missing.
    """
    try:
        from ops.relay.shell import Places, Shell
    except ImportError as missing:
        raise CommandError(str(missing)) from None
    core = Relay(
        router, prefetch=wishes.prefetch, now=time.monotonic(), count=wishes.count, rate=wishes.rate,
        follow=wishes.follow,
    )  # fmt: skip
    places = Places(_parameters(source[0]), source[1], _parameters(target[0]), target[1])
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    with bar:
        Shell(core, places, wishes.prefetch, _report, _shown(bar, what, core)).run()
    return core


def finish(done: str, core: Relay) -> None:
    """Print the outcome of a relay, and exit with a status: 0 if it is done, 1 if messages are left, 130 if it was
    stopped. CommandError if it failed.
    """
    text = f"{counted(core.confirmed)} {done}"
    if core.ending is Ending.FAILED:
        raise CommandError(f"{core.failure}; {text}{_unconfirmed(core)}")
    if core.unroutable:
        text += f"; {core.unroutable} stay, as the target has no route for them"
    if core.ending is Ending.SEARCH_BOUND:
        text += f"; the search ends after {counted(core.left_there)} that stay: --prefetch takes more"
    if core.ending is Ending.STOPPED:
        text += f"; stopped{_unconfirmed(core)}"
    print(text)
    if core.ending is Ending.STOPPED:
        raise typer.Exit(130)
    if core.unroutable or core.ending is Ending.SEARCH_BOUND:
        raise typer.Exit(1)


def _unconfirmed(core: Relay) -> str:
    if not core.unconfirmed:
        return ""
    return f", {core.unconfirmed} unconfirmed: they stay, and may have arrived too"


def _shown(bar: Progress, what: str, core: Relay) -> Callable[[], None]:
    """Return a function that shows how far a relay is."""
    task = bar.add_task(what, total=None)
    shown_at = 0.0

    def show() -> None:
        nonlocal shown_at
        now = time.monotonic()
        if bar.disable or now < shown_at + SHOWN_SECONDS:
            return
        shown_at = now
        held = f", held: {core.held_by}" if core.held_by else ""
        bar.update(task, completed=core.confirmed, total=core.confirmed + core.remaining, description=what + held)

    return show


def _report(line: str) -> None:
    print(f"penstock: {line}", file=sys.stderr)


def _parameters(url: str) -> Any:
    """Return pika's parameters for an AMQP URL. CommandError if it is none."""
    from penstock.client.link import parameters_of

    if not url.startswith(("amqp://", "amqps://")):
        raise CommandError("an AMQP URL begins with amqp:// or amqps://")
    try:
        return parameters_of(url, "penstock relay")
    except Exception as error:  # pika raises what int() and its own checks raise
        raise CommandError(f"no AMQP URL: {error}") from None
