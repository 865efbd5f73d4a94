"""Load for an AMQP 0-9-1 broker, with Locust: `locust -f load/locustfile.py --host amqp://127.0.0.1`.

This file ties the parts to Locust's events: users (`users.py`), counters across `--processes` (`counters.py`,
`workers.py`), the depth probe (`probe.py`) and, when all is over, the verdict (`verdict.py`), which becomes the exit
code. See `docs/load-testing.md`.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from locust import events
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import WorkerRunner
from pika import exceptions

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # Locust knows this file only, not where it belongs

from load import probe
from load.options import LoadOptions, add_arguments, target_of
from load.users import BlockedAwarePublisher, Consumer, IgnoringPublisher, ObeyingPublisher, tally
from load.verdict import Observed, judge
from load.workers import Workers

__all__ = ["BlockedAwarePublisher", "Consumer", "IgnoringPublisher", "ObeyingPublisher"]

MESSAGES_SECONDS = 0.1
STOP_SECONDS = 10.0
"""How long users may take to end when the test is over: with less than that they are killed between two frames."""

log = logging.getLogger("load")
logging.getLogger("pika").setLevel(logging.CRITICAL)  # its errors reach us as exceptions, and Locust as failures


class Run:
    """One test, from start to stop, as the process sees it that judges (the only one, or the master)."""

    workers: Workers
    depth: probe.DepthProbe | None = None
    options: LoadOptions | None = None
    heard_all: bool = True


run = Run()


def declare_arguments(parser: LocustArgumentParser) -> None:
    add_arguments(parser)


def check_options(environment: Environment, **_: object) -> None:
    """Refuse what cannot work before anything is started."""
    try:
        options = LoadOptions.of(environment.parsed_options)
        target_of(environment.host)
    except ValueError as error:
        log.error("%s", error)
        sys.exit(2)
    run.workers = Workers(environment)
    Consumer.fixed_count = options.consumers
    if not environment.stop_timeout:
        environment.stop_timeout = STOP_SECONDS


def start_observing(environment: Environment, **_: object) -> None:
    tally.clear()
    if isinstance(environment.runner, WorkerRunner):
        return
    run.options = LoadOptions.of(environment.parsed_options)
    target = target_of(environment.host)
    try:
        probe.prepare(target, run.options.queue, run.options.queue_arguments)
    except (exceptions.AMQPError, OSError) as error:
        log.error("%s cannot be used: %r", target, error)
    run.depth = probe.DepthProbe(target, run.options.queue)
    run.depth.start()
    if run.options.messages:
        threading.Thread(target=end_after, args=(environment, run.options.messages), daemon=True).start()


def end_after(environment: Environment, messages: int) -> None:
    """End the run when so many messages were received. In a thread, which under Locust is a greenlet."""
    runner, depth = environment.runner, run.depth
    while runner is not None and run.depth is depth:
        if tally.sums["received"] >= messages:
            (runner.stop if environment.web_ui else runner.quit)()
            return
        time.sleep(MESSAGES_SECONDS)


def hear_workers(environment: Environment, **_: object) -> None:
    run.heard_all = run.workers.stop_all()


def stop_observing(environment: Environment, **_: object) -> None:
    if run.depth is not None:
        run.depth.stop()


def report(client_id: str, data: dict[str, Any]) -> None:
    data["load"] = tally.take()


def add_report(client_id: str, data: Mapping[str, Any]) -> None:
    tally.add(data["load"])


def conclude(environment: Environment, **_: object) -> None:
    """Empty the queue, judge, and set the exit code. Listeners of `quitting` run in reverse order, so by now a master
    has stopped all users and collected the last reports; users of this process may still be at it (Ctrl-C).
    """
    if environment.runner is None or isinstance(environment.runner, WorkerRunner) or run.options is None:
        return
    environment.runner.stop()
    failures = environment.stats.total.num_failures + clear_queue(environment, run.options)
    if not run.heard_all:
        log.error("a worker did not answer, its counts are missing")
        failures += 1
    latency = environment.stats.entries.get((run.options.queue, "END-TO-END"))
    observed = Observed(
        tally=tally,
        depths=run.depth.depths if run.depth else [],
        failures=failures,
        end_to_end_p99_ms=latency.get_response_time_percentile(0.99) if latency else 0.0,
    )
    print_sums(environment)
    findings = list(judge(run.options, observed))
    for finding in findings:
        print(f"{'ok  ' if finding.good else 'FAIL'}  {finding.what}: {finding.found}")
    environment.process_exit_code = 0 if all(finding.good for finding in findings) else 1


def clear_queue(environment: Environment, options: LoadOptions) -> int:
    """Drain and delete the queue; returns 1 if that failed."""
    target = target_of(environment.host)
    try:
        if options.verify == "yes":
            left = probe.drain(target, options.queue, tally, options.drain_seconds)
            print(f"\nleft in the queue at the end: {left:,}")
        probe.remove(target, options.queue)
    except (exceptions.AMQPError, OSError) as error:
        log.error("the queue could not be emptied and deleted: %r", error)
        return 1
    return 0


def print_sums(environment: Environment) -> None:
    """Messages, where Locust's table has batches."""
    seconds = max(environment.stats.last_request_timestamp or 0, 0) - environment.stats.start_time
    for name in ("published", "confirmed", "received"):
        print(f"{name:>24}: {tally.sums[name]:>12,.0f}  {tally.sums[name] / max(seconds, 1):>10,.0f}/s")
    for name, value in sorted(tally.sums.items()):
        if name not in ("published", "confirmed", "received") and value:
            print(f"{name.replace('_', ' '):>24}: {value:>12,.6g}")


# Locust does not type its hooks
LISTENERS: tuple[tuple[Any, Callable[..., None]], ...] = (
    (events.init_command_line_parser, declare_arguments),
    (events.init, check_options),
    (events.test_start, start_observing),
    (events.test_stopping, hear_workers),
    (events.test_stop, stop_observing),
    (events.report_to_master, report),
    (events.worker_report, add_report),
    (events.quitting, conclude),
)
for hook, listener in LISTENERS:
    hook.add_listener(listener)
