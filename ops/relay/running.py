"""Relays as commands run them: addresses, progress on a terminal, and the outcome."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ops.administration.input import counted
from ops.administration.processes import Processes
from ops.errors import CommandError
from ops.relay.addresses import parameters, url_of_node
from ops.relay.core import Ending, Relay
from ops.relay.delivery import Router

if TYPE_CHECKING:
    from ops.relay.feed import Feed
    from ops.relay.shell import Places

STOPPED = 130
"""The exit status of a command that was stopped, as shells have it after Ctrl-C."""
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
    """Return the AMQP URL of the node that runs on a data directory, for `guest`. CommandError if it has none without
    TLS.
    """
    return url_of_node(Processes(data).node.local, vhost)


class Job(NamedTuple):
    """One relay: from a queue, with messages chosen and sent on their ways by a router; the target needs a queue, or
    none.
    """

    queue: str
    target_queue: str | None
    router: Router


def relayed(what: str, source: str, target: str, job: Job, wishes: Wishes) -> Relay:
    """Relay messages from one URL to another, and return the relay once it has ended. CommandError if a URL is none, or
    pika is missing.
    """
    return all_relayed(what, source, target, [job], wishes)[0]


def all_relayed(what: str, source: str, target: str, jobs: Sequence[Job], wishes: Wishes) -> list[Relay]:
    """As `relayed`, for several relays at once; return them in the same order."""
    source_parameters, target_parameters = parameters(source), parameters(target)
    from ops.relay.shell import Places, QueueOf  # not at the top: it needs pika

    places = [Places(QueueOf(source_parameters, job.queue), target_parameters, job.target_queue) for job in jobs]
    return _run(what, [job.router for job in jobs], places, wishes)


def fed(what: str, feed: Feed, target: str, target_queue: str | None, router: Router, wishes: Wishes) -> Relay:
    """As `relayed`, from a feed."""
    target_parameters = parameters(target)
    from ops.relay.shell import Places  # not at the top: it needs pika

    return _run(what, [router], [Places(feed, target_parameters, target_queue)], wishes)[0]


def _run(what: str, routers: Sequence[Router], places: Sequence[Places], wishes: Wishes) -> list[Relay]:
    from ops.relay.shell import Shells

    cores = [
        Relay(
            router, prefetch=wishes.prefetch, now=time.monotonic(), count=wishes.count, rate=wishes.rate,
            follow=wishes.follow,
        )
        for router in routers
    ]  # fmt: skip
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    with bar:
        shells = Shells(_report, _shown(bar, what, cores))
        for core, each in zip(cores, places, strict=True):
            shells.add(core, each, wishes.prefetch)
        shells.run()
    return cores


def finish(done: str, core: Relay, then: str = "") -> None:
    """Print the outcome of a relay, followed by `then`, and exit with a status: 0 if it is done, 1 if messages are
    left, 130 if it was stopped. CommandError if it failed.
    """
    text = outcome(done, core) + then
    if core.ending is Ending.FAILED:
        raise CommandError(text)
    print(text)
    if core.ending is Ending.STOPPED:
        raise typer.Exit(STOPPED)
    if core.unroutable or core.ending is Ending.SEARCH_BOUND:
        raise typer.Exit(1)


def outcome(done: str, core: Relay) -> str:
    """Return the outcome of a relay in a line."""
    text = f"{counted(core.confirmed)} {done}"
    if core.ending is Ending.FAILED:
        return f"{core.failure}; {text}{_unconfirmed(core)}"
    if core.unroutable:
        text += f"; {core.unroutable} stay, as the target has no route for them"
    if core.ending is Ending.SEARCH_BOUND:
        text += f"; the search ends after {counted(core.left_there)} that stay: --prefetch takes more"
    if core.ending is Ending.STOPPED:
        text += f"; stopped{_unconfirmed(core)}"
    return text


def _unconfirmed(core: Relay) -> str:
    if not core.unconfirmed:
        return ""
    return f", {core.unconfirmed} unconfirmed: they stay, and may have arrived too"


def _shown(bar: Progress, what: str, cores: Sequence[Relay]) -> Callable[[], None]:
    """Return a function that shows how far relays are, and what holds one of them."""
    task = bar.add_task(what, total=None)
    shown_at = 0.0

    def show() -> None:
        nonlocal shown_at
        now = time.monotonic()
        if bar.disable or now < shown_at + SHOWN_SECONDS:
            return
        shown_at = now
        held = next((f", held: {core.held_by}" for core in cores if core.held_by), "")
        done, remaining = sum(core.confirmed for core in cores), sum(core.remaining for core in cores)
        bar.update(task, completed=done, total=done + remaining, description=what + held)

    return show


def _report(line: str) -> None:
    print(f"penstock: {line}", file=sys.stderr)
