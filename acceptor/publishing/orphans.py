"""Parked publishes that outlive their channel: they go on waiting for room, charged to its user and vhost.

A close overtakes parked publishes as long as they can be kept; otherwise it waits until there is room for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.budgets.quotas import ORPHAN_BYTES, OVERDRAFT, RUN_BYTES, Quotas
from acceptor.clients.parked import ParkedRun
from penstock.amqp.spec import MethodSpec
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState

log = get_logger()


class Orphans:
    """The detached channels of an acceptor, and the channels whose close is late."""

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self.channels: dict[ChannelState, None] = {}
        self.late_closes: dict[ChannelState, None] = {}

    def adopt(self, channel: ChannelState, parked: list[ParkedRun]) -> None:
        """Keep what a channel that ends has parked."""
        nbytes = sum(run.nbytes + RUN_BYTES for run in parked)
        if self.quotas.is_used_up(channel.connection, nbytes + ORPHAN_BYTES, OVERDRAFT):
            log.warning("parked publishes dropped with their connection", connection=channel.connection.id,
                        messages=sum(run.count for run in parked), bytes=nbytes)  # fmt: skip
            return
        heir = channel.heir()
        self.channels[heir] = None
        self.quotas.keep(channel.connection, ORPHAN_BYTES)
        for run in parked:
            run.tag, run.mandatory = 0, False
            heir.park(run)
        heir.admit(heir.inbox[0].count if isinstance(heir.inbox[0], ParkedRun) else 1)

    def forget_empty(self) -> None:
        """Often: those whose publishes have all left are done."""
        for orphan in [orphan for orphan in self.channels if not orphan.inbox]:
            del self.channels[orphan]
            self.quotas.keep(orphan.connection, -ORPHAN_BYTES)

    def may_overtake(self, channel: ChannelState, method: MethodSpec) -> bool:
        """Whether a method may overtake parked publishes. A close may while they can be kept; otherwise it is late."""
        if method.name != "channel_close":
            return True
        late = self.quotas.is_used_up(channel.connection, ORPHAN_BYTES, OVERDRAFT)
        if late:
            self.late_closes[channel] = None
        return not late

    def take_late_closes(self) -> None:
        """Retry late closes: their publishes may be kept by now, and their unacked messages may be awaited."""
        late, self.late_closes = self.late_closes, {}
        for channel in late:
            channel.overtake()
