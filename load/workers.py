"""The master's messages to Locust's workers: send the consumers away, and stop.

By default Locust's master quits half a second after it has asked its workers to, which loses the last counts of a slow
worker. So the master first asks each worker to stop, and waits until all have answered that their users have ended;
their last counts precede that answer on the same connection. Only then is anything judged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

STOP = "load-stop"
STOPPED = "load-stopped"
CONSUMERS = "load-consumers"
PATIENCE_SECONDS = 10.0
"""Time beyond its users' `stop_timeout` that a worker may take to answer."""
POLL_SECONDS = 0.02


class Workers:
    """In the master: the record of workers that have stopped. In a worker: its answers. In a lone process: nothing."""

    def __init__(self, environment: Environment, consumers_away: Callable[[bool], None]) -> None:
        self._environment = environment
        self._consumers_away = consumers_away
        self._stopped: set[str] = set()
        self._users: dict[str, int] = {}
        runner = environment.runner
        if isinstance(runner, MasterRunner):
            runner.register_message(STOPPED, self._on_stopped)
        elif isinstance(runner, WorkerRunner):
            runner.register_message(STOP, self._on_stop)
            runner.register_message(CONSUMERS, self._on_consumers)

    def send_consumers(self, away: bool) -> None:
        """Send the consumers of all processes away, or call them back."""
        runner = self._environment.runner
        self._consumers_away(away)
        if isinstance(runner, MasterRunner):
            runner.send_message(CONSUMERS, {"away": away})

    def stop_all(self) -> bool:
        """Stop the users of all workers and wait for their last counts; return whether all workers answered."""
        runner = self._environment.runner
        if not isinstance(runner, MasterRunner):
            return True
        self._stopped.clear()
        self._users = dict(runner.reported_user_classes_count)
        asked = {client.id for client in runner.clients.all}
        for worker in asked:
            runner.send_message(STOP, client_id=worker)
        deadline = time.monotonic() + self._environment.stop_timeout + PATIENCE_SECONDS
        while not asked <= self._stopped and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return asked <= self._stopped

    def restore_users(self) -> None:
        """Restore the number of users of each class for Locust's report, which reads it only after they have
        stopped.
        """
        if isinstance(self._environment.runner, MasterRunner):
            self._environment.runner.final_user_classes_count = self._users

    def _on_stopped(self, environment: Environment, msg: Any) -> None:
        self._stopped.add(msg.node_id)

    def _on_consumers(self, environment: Environment, msg: Any) -> None:
        self._consumers_away(bool(msg.data["away"]))

    def _on_stop(self, environment: Environment, msg: Any) -> None:
        """Stop in a thread (a greenlet) of its own: users take time to stop, and the connection to the master must stay
        alive.
        """
        threading.Thread(target=self._stop_and_answer, daemon=True).start()

    def _stop_and_answer(self) -> None:
        runner = self._environment.runner
        assert isinstance(runner, WorkerRunner)
        runner.stop()
        report: dict[str, Any] = {}
        hook: Any = self._environment.events.report_to_master  # Locust does not type its hooks
        hook.fire(client_id=runner.client_id, data=report)
        runner.send_message("stats", report)
        runner.send_message(STOPPED)
