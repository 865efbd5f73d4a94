"""The parts of an acceptor that its connections and channels use."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acceptor.budgets.accounts import Accounts
    from acceptor.budgets.headcount import Headcount
    from acceptor.budgets.outputs import Outputs
    from acceptor.budgets.unfinished import Unfinished
    from acceptor.budgets.unread import Unread
    from acceptor.clients.silence import Silence
    from acceptor.clients.state import AcceptorState
    from acceptor.consuming.delivery import Delivery
    from acceptor.consuming.replies import Replies
    from acceptor.consuming.settling import Settling
    from acceptor.gates.fair import Weights
    from acceptor.gates.permissions import Permissions
    from acceptor.holding.early import EarlyNotice
    from acceptor.holding.holding import Holding
    from acceptor.logins.logins import Logins
    from acceptor.moving.moving import Moves
    from acceptor.moving.requests import Requests
    from acceptor.publishing.orphans import Orphans
    from acceptor.publishing.overtaking import Overtaking
    from acceptor.publishing.publishing import Publishing
    from acceptor.routing.gates import Gates
    from acceptor.routing.routes import Routes
    from acceptor.transactions.replacing import Replacing

Handlers = Mapping[str, Callable[[Any, dict[str, Any]], Generator[Any, Any, None] | None]]
"""The handlers of a channel's methods, by name (acceptor/amqp/methods)."""


@dataclass(frozen=True, slots=True)
class Services:
    """One of each kind, for all connections of the acceptor."""

    acceptor: AcceptorState
    handlers: Handlers
    permissions: Permissions
    logins: Logins
    headcount: Headcount
    weights: Weights
    gates: Gates
    routes: Routes
    overtaking: Overtaking
    publishing: Publishing
    settling: Settling
    delivery: Delivery
    replies: Replies
    moves: Moves
    requests: Requests
    orphans: Orphans
    replacing: Replacing
    holding: Holding
    early: EarlyNotice
    accounts: Accounts
    outputs: Outputs
    unfinished: Unfinished
    unread: Unread
    silence: Silence
