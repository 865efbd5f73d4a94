"""The files of an acceptor about flow control: events, incidents, short stops, open holds, and accounts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from acceptor.holding.kept_accounts import KeptAccounts
from acceptor.holding.open_holds import OpenHolds
from penstock.flow.flow_records import FlowRecords

if TYPE_CHECKING:
    from acceptor.clients.state import AcceptorState
    from acceptor.holding.event_log import EventLog
    from acceptor.holding.ledger import Ledger


class FlowFiles:
    """The files of one acceptor about flow control, in the data directory of its node.

    An incarnation begins with the holds that its predecessor left open, which are over, and with its accounts.
    """

    def __init__(self, data: Path, acceptor: AcceptorState, ledger: Ledger, events: EventLog) -> None:
        index = acceptor.index
        self.acceptor = acceptor
        self.ledger = ledger
        self.events = events
        self.records = FlowRecords(data, "acceptor", index)
        self.open_holds = OpenHolds(data, index)
        self.records.write([], self.open_holds.read(), [])
        self.open_holds.keep([])
        self.kept_accounts = KeptAccounts(data, index)
        if acceptor.incarnation > 1:
            self.kept_accounts.take_over(ledger)
        else:
            self.kept_accounts.forget()

    def write_due(self) -> None:
        """Write the gathered records, with the sums of short stops that are due."""
        self._write(self.ledger.short_stops.take_due(self.acceptor.now))

    def write_all(self) -> None:
        """Write the gathered records, with all sums of short stops: the process ends."""
        self._write(self.ledger.short_stops.take_all())

    def _write(self, short_stops: list[dict[str, Any]]) -> None:
        """Write events, incidents, these sums of short stops, and the open holds."""
        ledger, began = self.ledger, self.acceptor.origin.wall
        incidents, ledger.records = ledger.records, []
        holds = ledger.open_records(self.acceptor.now)
        for record in [*incidents, *short_stops, *holds]:
            record["begun"] += began
            record["ended"] += began
            for victim in record["victims"]:
                victim["since"] += began
        self.records.write(self.events.take_all(), incidents, short_stops)
        self.open_holds.keep(holds)

    def keep_accounts(self) -> None:
        """Write the ledger's accounts for the next incarnation."""
        if self.acceptor.has_place():
            self.kept_accounts.keep(self.ledger, self.acceptor.now)
