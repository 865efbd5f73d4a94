"""Load for an AMQP 0-9-1 broker, with Locust: `locust -f load/locustfile.py --host amqp://127.0.0.1`.

This file ties the parts to Locust's events: users (`users/`), counters across `--processes` (`counters.py`,
`workers.py`), the run that is observed and judged (`run.py`, `verdict.py`) and sets the exit code, scenarios
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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # Locust imports this file alone, not its package

from load import web
from load.options import LoadOptions, add_arguments, target_of
from load.run import Run
from load.shape import Scenario
from load.users import PATTERNS, USERS, AmqpUser, Publisher, attendance, consumer_counts, tally, unacked
from load.workers import Workers

globals().update({user.__name__: user for user in USERS})  # Locust finds user classes by the names in this file

STOP_SECONDS = 10.0
"""Grace period of users when the test is over: with less, Locust kills them between two frames."""

log = logging.getLogger("load")
logging.getLogger("pika").setLevel(logging.CRITICAL)  # we get its errors as exceptions, and Locust as failures


class Parts:
    """State that outlives one test: the connection to the workers; and the current or last run."""

    workers: Workers
    run: Run | None = None


parts = Parts()


def declare_arguments(parser: LocustArgumentParser) -> None:
    """Declare the command-line arguments of a load run."""
    add_arguments(parser)


def check_options(environment: Environment, **_: object) -> None:
    """Refuse impossible options before anything is started, and choose the user classes."""
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
    """Let Ctrl-C end Locust's main greenlet, as Locust expects. By default Ctrl-C ends the greenlet that happens to
    run: a user ended that way would keep its connection, and its unacknowledged messages would be missing at the end.
    """
    gevent.signal_handler(signal.SIGINT, gevent.kill, gevent.getcurrent(), KeyboardInterrupt)


def chosen(options: LoadOptions) -> list[type[AmqpUser]]:
    """Return the user classes of the patterns, each once."""
    users: dict[type[AmqpUser], None] = {}
    counts = consumer_counts(options)
    for name in options.patterns:
        users |= dict.fromkeys(PATTERNS[name].publishers)
        if counts[PATTERNS[name].consumer]:  # Locust ignores a fixed count of 0
            users[PATTERNS[name].consumer] = None
    return list(users)


def check_count(environment: Environment, options: LoadOptions) -> None:
    """Raise ValueError if no user is left to publish: Locust starts consumers first."""
    parsed = environment.parsed_options
    assert parsed is not None
    consumers = sum(count for user, count in consumer_counts(options).items() if user in environment.user_classes)
    publishers = [user for user in environment.user_classes if issubclass(user, Publisher)]
    if parsed.headless and not isinstance(environment.runner, WorkerRunner) and publishers:
        users = parsed.num_users or 1
        if users <= consumers:
            raise ValueError(f"-u {users} leaves no user to publish: {consumers} of them consume")


def check_marks(environment: Environment, options: LoadOptions) -> None:
    """Raise ValueError if the depth seen, which excludes unacknowledged messages, cannot show that queues have room."""
    most = max(unacked(amqp_users(environment), options).values(), default=0)
    if options.bounds.max_resume_seconds and options.resume_count < most:
        raise ValueError(
            f"--max-resume-seconds needs a --resume-count of {most} or more, or a smaller --prefetch: "
            "that many messages may be unacknowledged"
        )


def amqp_users(environment: Environment) -> list[type[AmqpUser]]:
    """Return the run's user classes that belong to this package."""
    return [user for user in environment.user_classes if issubclass(user, AmqpUser)]


def send_consumers(away: bool) -> None:
    """Send the consumers of this process away, or call them back."""
    attendance.away = away


def start_observing(environment: Environment, **_: object) -> None:
    """Reset the counters and, unless this is a worker, begin to observe the run."""
    tally.clear()
    send_consumers(away=False)
    if isinstance(environment.runner, WorkerRunner):
        return
    users = amqp_users(environment)
    roles = {user.__name__: user.role for user in users if issubclass(user, Publisher)}
    parts.run = Run(environment, tally, unacked(users, LoadOptions.of(environment.parsed_options)), roles)
    parts.run.begin()


def stop_workers(environment: Environment, **_: object) -> None:
    """Stop all workers and record whether all of them answered."""
    all_answered = parts.workers.stop_all()
    if parts.run is not None:
        parts.run.all_answered = all_answered


def stop_observing(environment: Environment, **_: object) -> None:
    """Stop observing the run."""
    parts.workers.restore_users()
    if parts.run is not None:
        parts.run.end()


def report(client_id: str, data: dict[str, Any]) -> None:
    """Attach a worker's counts to its report."""
    data["load"] = tally.pop_report()


def add_report(client_id: str, data: Mapping[str, Any]) -> None:
    """Add a worker's counts."""
    tally.add(data["load"])


def conclude(environment: Environment, **_: object) -> None:
    """Judge the run and set the exit code. Listeners of `quitting` run in reverse order, so a master has already
    stopped all users and collected the last reports; users of this process may still be running (Ctrl-C).
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
    (events.test_stopping, stop_workers),
    (events.test_stop, stop_observing),
    (events.report_to_master, report),
    (events.worker_report, add_report),
    (events.quitting, conclude),
)
for hook, listener in LISTENERS:
    hook.add_listener(listener)
