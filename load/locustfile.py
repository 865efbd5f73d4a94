"""Load for an AMQP 0-9-1 broker, with Locust: `locust -f load/locustfile.py --host amqp://127.0.0.1`.

This file ties the parts to Locust's events: users (`users/`), counters across `--processes` (`counters.py`,
`workers.py`), the run that is observed and judged (`run.py`, `verdict.py`) and gives the exit code, scenarios
(`shape.py`), the tab in the UI (`web.py`). See `docs/load-testing.md`.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gevent
from locust import events
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import WorkerRunner

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # Locust knows this file only, not where it belongs

from load import web
from load.options import LoadOptions, add_arguments, target_of
from load.run import Run
from load.shape import Scenario
from load.users import PATTERNS, USERS, AmqpUser, Publisher, attendance, consumer_counts, tally, unacked
from load.workers import Workers

globals().update({user.__name__: user for user in USERS})  # Locust looks for classes among the names of this file

STOP_SECONDS = 10.0
"""How long users may take to end when the test is over: with less than that they are killed between two frames."""

log = logging.getLogger("load")
logging.getLogger("pika").setLevel(logging.CRITICAL)  # its errors reach us as exceptions, and Locust as failures


class Parts:
    """What outlives one test: the connection to the workers; and the run that is on, or was last."""

    workers: Workers
    run: Run | None = None


parts = Parts()


def declare_arguments(parser: LocustArgumentParser) -> None:
    add_arguments(parser)


def check_options(environment: Environment, **_: object) -> None:
    """Refuse what cannot work before anything is started, and choose who takes part."""
    parsed = environment.parsed_options
    assert parsed is not None
    try:
        options = LoadOptions.of(parsed)
        target_of(environment.host)
        if not (parsed.user_classes or parsed.class_picker or isinstance(environment.runner, WorkerRunner)):
            environment.user_classes[:] = chosen(options)
        check_count(environment, options)
        check_marks(environment, options)
    except ValueError as error:
        log.error("%s", error)
        sys.exit(2)
    parts.workers = Workers(environment, send_consumers)
    for consumer, count in consumer_counts(options).items():
        consumer.fixed_count = count
    if not environment.stop_timeout:
        environment.stop_timeout = STOP_SECONDS
    if options.scenario != "constant" and not isinstance(environment.runner, WorkerRunner):
        environment.shape_class = Scenario(environment, options, parts.workers)
        environment.shape_class.runner = environment.runner
    web.extend(environment, tally, lambda: parts.run.section() if parts.run else "")


def interrupt_only_main(environment: Environment, **_: object) -> None:
    """Ctrl-C ends Locust's main greenlet, as Locust expects it. Of itself it ends whichever runs: a user that it hits
    would keep its connection, and what is unacknowledged there would be missing in the end.
    """
    gevent.signal_handler(signal.SIGINT, gevent.kill, gevent.getcurrent(), KeyboardInterrupt)


def chosen(options: LoadOptions) -> list[type[AmqpUser]]:
    """The users of the patterns, each class once."""
    users: dict[type[AmqpUser], None] = {}
    counts = consumer_counts(options)
    for name in options.patterns:
        users |= dict.fromkeys(PATTERNS[name].publishers)
        if counts[PATTERNS[name].consumer]:  # of a class with a fixed count of 0 Locust would make any number
            users[PATTERNS[name].consumer] = None
    return list(users)


def check_count(environment: Environment, options: LoadOptions) -> None:
    """ValueError if consumers are all there would be: Locust makes them first."""
    parsed = environment.parsed_options
    assert parsed is not None
    consumers = sum(count for user, count in consumer_counts(options).items() if user in environment.user_classes)
    publishers = [user for user in environment.user_classes if issubclass(user, Publisher)]
    if parsed.headless and not isinstance(environment.runner, WorkerRunner) and publishers:
        users = parsed.num_users or 1
        if users <= consumers:
            raise ValueError(f"-u {users} leaves nobody to publish: {consumers} of the users consume")


def check_marks(environment: Environment, options: LoadOptions) -> None:
    """ValueError if it cannot be seen whether queues have room: their depth is seen without what is unacknowledged."""
    most = max(unacked(amqp_users(environment), options).values(), default=0)
    if options.max_resume_seconds and options.resume_count < most:
        raise ValueError(
            f"--max-resume-seconds needs a --resume-count of {most} or more, or a smaller --prefetch: "
            "that many messages may be unacknowledged"
        )


def amqp_users(environment: Environment) -> list[type[AmqpUser]]:
    return [user for user in environment.user_classes if issubclass(user, AmqpUser)]


def send_consumers(away: bool) -> None:
    attendance.away = away


def start_observing(environment: Environment, **_: object) -> None:
    tally.clear()
    send_consumers(away=False)
    if isinstance(environment.runner, WorkerRunner):
        return
    users = amqp_users(environment)
    roles = {user.__name__: user.role for user in users if issubclass(user, Publisher)}
    parts.run = Run(environment, tally, unacked(users, LoadOptions.of(environment.parsed_options)), roles)
    parts.run.begin()


def hear_workers(environment: Environment, **_: object) -> None:
    heard_all = parts.workers.stop_all()
    if parts.run is not None:
        parts.run.heard_all = heard_all


def stop_observing(environment: Environment, **_: object) -> None:
    parts.workers.restore_users()
    if parts.run is not None:
        parts.run.end()


def report(client_id: str, data: dict[str, Any]) -> None:
    data["load"] = tally.take()


def add_report(client_id: str, data: Mapping[str, Any]) -> None:
    tally.add(data["load"])


def conclude(environment: Environment, **_: object) -> None:
    """Judge, and set the exit code. Listeners of `quitting` run in reverse order, so by now a master has stopped all
    users and collected the last reports; users of this process may still be at it (Ctrl-C).
    """
    if environment.runner is None or parts.run is None:
        return
    environment.runner.stop()
    environment.process_exit_code = 0 if parts.run.conclude() else 1


# Locust does not type its hooks
LISTENERS: tuple[tuple[Any, Callable[..., None]], ...] = (
    (events.init_command_line_parser, declare_arguments),
    (events.init, check_options),
    (events.init, interrupt_only_main),
    (events.test_start, start_observing),
    (events.test_stopping, hear_workers),
    (events.test_stop, stop_observing),
    (events.report_to_master, report),
    (events.worker_report, add_report),
    (events.quitting, conclude),
)
for hook, listener in LISTENERS:
    hook.add_listener(listener)
