"""Logins: the backends are asked in turn until one accepts the client; that one also decides what it may do.

Users that may log in from this machine only (`amqp.loopback_users`) are refused by their name, whichever backend knows
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from acceptor.clients.addresses import is_loopback
from acceptor.logins.backend import Backend, Decided, Decision, Identity

KEPT_OUT = "this user may log in from this machine only"
UNNAMED = "the certificate names no user in the part that login_from says"

Ask = Callable[[Backend, Decided], None]


class Logins:
    """The logins of one acceptor."""

    def __init__(self, backends: Sequence[Backend], loopback_users: Collection[str]) -> None:
        self._backends = backends
        self._loopback_users = loopback_users

    def check(self, name: str, password: str, host: str, decided: Decided) -> None:
        """Decide on a user and a password, sent from a host; `decided` is called once, now or later."""

        def ask(backend: Backend, decided: Decided) -> None:
            backend.check(name, password, host, decided)

        self._decide(name, host, ask, decided)

    def recognize(self, name: str, host: str, decided: Decided) -> None:
        """Decide on a user whose certificate has shown who it is."""

        def ask(backend: Backend, decided: Decided) -> None:
            backend.recognize(name, host, decided)

        if name:
            self._decide(name, host, ask, decided)
        else:
            decided(UNNAMED)

    def _decide(self, name: str, host: str, ask: Ask, decided: Decided) -> None:
        if self._is_kept_out(name, host):
            decided(KEPT_OUT)
        else:
            self._ask_next(list(self._backends), [], host, ask, decided)

    def _ask_next(self, backends: list[Backend], reasons: list[str], host: str, ask: Ask, decided: Decided) -> None:
        if backends:
            answered = partial(self._answered, backends[1:], reasons, host, ask, decided)
            ask(backends[0], answered)
        else:
            decided("; ".join(reasons))

    def _answered(
        self, rest: list[Backend], reasons: list[str], host: str, ask: Ask, decided: Decided, decision: Decision
    ) -> None:  # fmt: skip
        if not isinstance(decision, Identity):
            self._ask_next(rest, [*reasons, decision], host, ask, decided)
        elif self._is_kept_out(decision.rights.user, host):
            decided(KEPT_OUT)
        else:
            decided(decision)

    def _is_kept_out(self, name: str, host: str) -> bool:
        return name in self._loopback_users and not is_loopback(host)
