"""Causes that hold a producer, with their start and total duration. Times are seconds of the caller's clock."""

from __future__ import annotations

from typing import Final, Literal

Cause = Literal["flow", "blocked", "window", "connection"]

CAUSES: Final[tuple[Cause, ...]] = ("flow", "blocked", "window", "connection")
"""Channel.Flow(active=false); connection.blocked; the window of unconfirmed messages is full; there is
no connection.
"""


class Holding:
    """The causes that hold one producer at present; true if there are any."""

    def __init__(self) -> None:
        self._texts: dict[Cause, str] = {}
        self._since: dict[Cause, float] = {}
        self._seconds: dict[Cause, float] = dict.fromkeys(CAUSES, 0.0)
        self._held_since = 0.0
        self._held_seconds = 0.0

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __contains__(self, cause: Cause) -> bool:
        return cause in self._texts

    def hold(self, cause: Cause, text: str, now: float) -> None:
        """Add a cause; `text` is for people and may change while the cause lasts."""
        if not self._texts:
            self._held_since = now
        self._texts[cause] = text
        self._since.setdefault(cause, now)

    def release(self, cause: Cause, now: float) -> float | None:
        """Remove a cause; return how long it lasted, None if it was absent."""
        if self._texts.pop(cause, None) is None:
            return None
        seconds = now - self._since.pop(cause)
        self._seconds[cause] += seconds
        if not self._texts:
            self._held_seconds += now - self._held_since
        return seconds

    def text(self) -> str:
        """The causes, for people."""
        return "; ".join(self._texts.values())

    def seconds(self, now: float) -> dict[str, float]:
        """Seconds by cause, including present causes."""
        return {cause: total + now - self._since.get(cause, now) for cause, total in self._seconds.items()}

    def held_seconds(self, now: float) -> float:
        """Seconds during which there was any cause."""
        return self._held_seconds + (now - self._held_since if self._texts else 0.0)
