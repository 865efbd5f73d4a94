"""The memory that clients may make an acceptor use, beside the publishes that it holds (`acceptor.budgets.quotas`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.budgets.accounts import Accounts
from acceptor.budgets.outputs import Outputs
from acceptor.budgets.unfinished import Unfinished
from acceptor.budgets.unread import Unread

if TYPE_CHECKING:
    from acceptor.clients.state import AcceptorState


class Budgets:
    """The budgets of one acceptor: `outputs` (answers that clients do not read) and `unfinished` bodies are charged to
    the same `accounts` of users. `unread` are the connections that are not read for either.
    """

    def __init__(self, acceptor: AcceptorState) -> None:
        self.accounts = Accounts(acceptor.settings)
        self.outputs = Outputs(acceptor, self.accounts)
        self.unread = Unread(acceptor, self.outputs)
        self.unfinished = Unfinished(acceptor, self.accounts)
