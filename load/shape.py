"""A scenario as Locust's `LoadTestShape`."""

from __future__ import annotations

from locust import LoadTestShape
from locust.env import Environment

from load.options import LoadOptions
from load.scenarios import SCENARIOS
from load.workers import Workers

SECONDS = 60.0
"""Length of a run without `-t`."""
SPAWN_RATE = 100.0
"""Users started or stopped a second without `-r`; the scenario sets the pace."""


class Scenario(LoadTestShape):
    """A scenario run by Locust: `-u` is the maximum number of users, `-t` the length of the run."""

    abstract = True  # keeps Locust from picking up the class by itself
    use_common_options = True

    def __init__(self, environment: Environment, options: LoadOptions, workers: Workers) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._environment = environment
        self._scenario = SCENARIOS[options.scenario]
        self._workers = workers
        self._consuming = True

    def tick(self) -> tuple[int, float] | None:
        """Return users and spawn rate for this moment, None at the end; send the consumers away or call them back."""
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
