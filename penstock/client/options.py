"""What both producers are made with."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Literal

MIB: Final = 1024 * 1024
FIRST_DELAY: Final = 0.1

OnFull = Literal["block", "raise", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`window_count`, `window_bytes`: at most so much is unconfirmed, what waits to be sent included.
    `report_seconds`: how often a producer that somebody waits for says why. `connect_seconds`: how long the first
    connection may take. `reconnect_seconds`: the longest wait between two attempts after a loss; they begin at 0.1 s.
    `give_up_seconds`: without a connection for so long the producer ends (None: never). `name` is shown by brokers.
    """

    window_count: int = 1000
    window_bytes: int = 16 * MIB
    report_seconds: float = 10.0
    connect_seconds: float = 30.0
    reconnect_seconds: float = 30.0
    give_up_seconds: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.window_count < 1 or self.window_bytes < 1:
            raise ValueError("a window has room for one message at least")
        if min(self.report_seconds, self.connect_seconds, self.reconnect_seconds) <= 0:
            raise ValueError("seconds are more than 0")

    def delay(self, attempt: int) -> float:
        """Seconds to wait before the attempt (counted from 0): twice as long each time, and not all clients at once."""
        return min(FIRST_DELAY * 2.0 ** min(attempt, 32), self.reconnect_seconds) * random.uniform(0.5, 1.0)
