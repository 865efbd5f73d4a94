"""A rate of messages, as a token bucket."""

from __future__ import annotations

BURST_SECONDS = 0.1
"""The tokens that gather while nothing is sent are those of this time, but one at least."""


class TokenBucket:
    """`rate` is in messages a second; None is no limit. Times are seconds of the caller's clock."""

    def __init__(self, rate: float | None, now: float) -> None:
        self._rate = rate
        self._most = max(1.0, (rate or 0.0) * BURST_SECONDS)
        self._tokens = self._most
        self._filled = now

    def spend(self, now: float) -> bool:
        """Spend a token for one message; return whether there was one."""
        if self._rate is None:
            return True
        self._tokens = min(self._most, self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def next_at(self) -> float:
        """Return when there is a token for the next message."""
        if self._rate is None or self._tokens >= 1.0:
            return self._filled
        return self._filled + (1.0 - self._tokens) / self._rate
