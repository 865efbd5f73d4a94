"""One of the relays that a node runs, over all of its runs. Without sockets and clocks.

    connecting ◀──connection lost, both up──▶ running ◀──▶ held
        │                                      │  ▲          │
        └────run failed────▶ failing ◀─────────┴──│──────────┘
                                └──both sides up──┘

A run that fails, as for a missing queue, is followed by another, for ever; a lost connection does not end a run.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from ops.relay.core import Relay

FIRST_SECONDS: Final = 1.0
"""The pause after a first failure; it is doubled with each further one."""
LONGEST_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 60.0
"""A run of this duration makes a failure a first one."""


class State(StrEnum):
    """The states of a relay."""

    CONNECTING = "connecting"
    RUNNING = "running"
    HELD = "held"
    FAILING = "failing"


class Kept:
    """State of the relay. Times (`now`) are seconds of the shell's clock.

    `since` is when the present state began; `retry_at` is when the next run is due, None during a run; `error` is the
    last loss of a connection or failure, from `error_at` on.
    """

    def __init__(self, now: float) -> None:
        self.run: Relay | None = None
        self.state = State.CONNECTING
        self.since = now
        self.retry_at: float | None = None
        self.error = ""
        self.error_at = now
        self._confirmed_before = 0
        self._begun_at = now
        self._failures = 0

    def begin(self, run: Relay, now: float) -> None:
        """Handle the begin of a run."""
        self.run, self._begun_at, self.retry_at = run, now, None
        self.update(now)

    def end(self, now: float) -> None:
        """Handle the end of the run: the next one is due later if it failed, else at once."""
        assert self.run is not None
        run, self.run = self.run, None
        self._confirmed_before += run.confirmed
        if run.failure:
            self._fail(run.failure, now, now - self._begun_at)
        else:
            self.restart(now)

    def refuse(self, reason: str, now: float) -> None:
        """Handle a run that cannot begin."""
        self._fail(reason, now, 0.0)

    def restart(self, now: float) -> None:
        """Have the next run begin at once, as if no run had failed."""
        self._failures, self.retry_at = 0, now
        self._enter(State.CONNECTING, now)

    def report(self, error: str, now: float) -> None:
        """Handle an error that ends nothing."""
        self.error, self.error_at = error, now

    def update(self, now: float) -> None:
        """Derive the state from that of the run, if there is one."""
        if self.run is None:
            return
        if self.run.up:
            self._enter(State.HELD if self.run.is_held(now) else State.RUNNING, now)
        elif self.state is not State.FAILING:
            self._enter(State.CONNECTING, now)

    @property
    def confirmed(self) -> int:
        """How many messages have been relayed, by all runs."""
        return self._confirmed_before + (self.run.confirmed if self.run else 0)

    def reason(self, now: float) -> str:
        """Return why the relay does not run freely, in words; empty if it does."""
        if self.state in (State.FAILING, State.CONNECTING):
            return self.error
        return self.run.waits_for(now) if self.run else ""

    def _fail(self, reason: str, now: float, seconds: float) -> None:
        """Handle a failure after a run of so many seconds."""
        self._failures = 1 if seconds >= STEADY_SECONDS else self._failures + 1
        self.retry_at = now + min(FIRST_SECONDS * 2.0 ** min(self._failures - 1, 30), LONGEST_SECONDS)
        self.report(reason, now)
        self._enter(State.FAILING, now)

    def _enter(self, state: State, now: float) -> None:
        if state is not self.state:
            self.state, self.since = state, now
