"""Options of both producers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

MIB: Final = 1024 * 1024
FIRST_DELAY: Final = 0.1

OnFull = Literal["block", "raise", "drop"]


class FlowCommand(NamedTuple):
    """A flow control command from the broker, which holds the producer or releases it.

    `by` is Channel.Flow, or connection.blocked and connection.unblocked; `reason` is the broker's reason, for people;
    `seconds` is how long the producer was held, 0 at the start. The loss of a connection lifts the commands given on
    it.
    """

    held: bool
    by: Literal["flow", "blocked"]
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`window_count`, `window_bytes`: maximum of unconfirmed messages, including those waiting to be sent.
    `report_seconds`: interval at which a producer with waiting callers logs the cause. `connect_seconds`: how long the
    first connection may take. `reconnect_seconds`: the longest delay between two attempts after a loss; delays begin at
    0.1 s. `give_up_seconds`: how long without a connection until the producer ends (None: never). `close_seconds`: how
    long closing waits for confirms (None: as long as it takes). `on_flow` is called with each `FlowCommand`, by the
    thread or loop that serves the connection: it must not wait. `name` is shown by brokers.
    """

    window_count: int = 1000
    window_bytes: int = 16 * MIB
    report_seconds: float = 10.0
    connect_seconds: float = 30.0
    reconnect_seconds: float = 30.0
    give_up_seconds: float | None = None
    close_seconds: float | None = None
    on_flow: Callable[[FlowCommand], object] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.window_count < 1 or self.window_bytes < 1:
            raise ValueError("a window has room for one message at least")
        if min(self.report_seconds, self.connect_seconds, self.reconnect_seconds) <= 0:
            raise ValueError("seconds are more than 0")
        if self.close_seconds is not None and self.close_seconds < 0:
            raise ValueError("close_seconds is 0 or more, or None")

    def delay(self, attempt: int) -> float:
        """Seconds to wait before the attempt (counted from 0): doubling each time, with jitter so that clients spread
        out.
        """
        spread = random.uniform(0.5, 1.0)  # noqa: S311  no secret
        return min(FIRST_DELAY * 2.0 ** min(attempt, 32), self.reconnect_seconds) * spread
