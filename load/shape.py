"""A scenario as Locust's `LoadTestShape`."""

from __future__ import annotations

from locust import LoadTestShape
from locust.env import Environment

from load.options import LoadOptions
from load.scenarios import SCENARIOS
from load.workers import Workers

SECONDS = 60.0
"""A run's time if `-t` does not tell."""
SPAWN_RATE = 100.0
"""Users started or stopped a second if `-r` does not tell: the scenario sets the pace."""


class Scenario(LoadTestShape):
    """`-u` is the most users there are, `-t` the time of the whole."""

    abstract = True  # made here for the one run, not to be found by Locust
    use_common_options = True

    def __init__(self, environment: Environment, options: LoadOptions, workers: Workers) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._environment = environment
        self._scenario = SCENARIOS[options.scenario]
        self._workers = workers
        self._consuming = True

    def tick(self) -> tuple[int, float] | None:
        parsed = self._environment.parsed_options
        assert parsed is not None
        progress = self.get_run_time() / (parsed.run_time or SECONDS)  # type: ignore[no-untyped-call]
        moment = self._scenario(progress) if progress < 1 else None
        consuming = moment is None or moment.consuming
        if consuming != self._consuming:
            self._consuming = consuming
            self._workers.send_consumers(away=not consuming)
        if moment is None:
            return None
        return max(1, round(moment.share * (parsed.num_users or 1))), parsed.spawn_rate or SPAWN_RATE
