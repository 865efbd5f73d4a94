"""The parts of an acceptor that its connections and channels use."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acceptor.accounts import Accounts
    from acceptor.delivery import Delivery
    from acceptor.early import EarlyNotice
    from acceptor.episodes import Episodes
    from acceptor.escalation import Escalations
    from acceptor.fair import Weights
    from acceptor.gates import Gates
    from acceptor.headcount import Headcount
    from acceptor.logins import Logins
    from acceptor.moving import Moves
    from acceptor.orphans import Orphans
    from acceptor.outputs import Outputs
    from acceptor.overtaking import Overtaking
    from acceptor.permissions import Permissions
    from acceptor.publishing import Publishing
    from acceptor.replies import Replies
    from acceptor.requests import Requests
    from acceptor.routes import Routes
    from acceptor.settling import Settling
    from acceptor.state import AcceptorState
    from acceptor.terms import UserTerms
    from acceptor.throttle import Throttle
    from acceptor.unfinished import Unfinished
    from acceptor.unread import Unread

Handlers = Mapping[str, Callable[[Any, dict[str, Any]], Generator[Any, Any, None] | None]]
"""What methods of a channel do, by name (acceptor/methods)."""


@dataclass(frozen=True, slots=True)
class Services:
    """One of each kind, for all connections of the acceptor."""

    acceptor: AcceptorState
    handlers: Handlers
    permissions: Permissions
    logins: Logins
    headcount: Headcount
    weights: Weights
    user_terms: UserTerms
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
    episodes: Episodes
    escalations: Escalations
    throttle: Throttle
    early: EarlyNotice
    accounts: Accounts
    outputs: Outputs
    unfinished: Unfinished
    unread: Unread
