"""The backend that asks an HTTP service, with the calls of RabbitMQ's rabbitmq_auth_backend_http."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from acceptor.clients.addresses import address_of
from acceptor.gates.rights import Kind
from acceptor.logins.backend import Decided, Identity
from acceptor.logins.guesses import Guesses
from acceptor.logins.http_answers import HttpAnswers, Verdict, question
from penstock.node.logs import get_logger
from penstock.settings.auth import HttpAuthSettings
from penstock.text.durations import shown
from router.model.users import Right, TopicRight

log = get_logger()

REFUSED = "the service of auth.http refuses the user"


@dataclass(frozen=True, slots=True)
class HttpRights:
    """The rights of a user, from a host, as the service decides them."""

    settings: HttpAuthSettings = field(repr=False)
    answers: HttpAnswers = field(repr=False)
    user: str
    host: str
    tags: frozenset[str]
    is_internal = False

    @property
    def generation(self) -> int:
        return self.answers.generation

    def may_open(self, vhost: str) -> bool:
        return self._allows(self.settings.vhost_path, vhost=vhost, ip=self.host)

    def may(self, vhost: str, right: Right, kind: Kind, name: str) -> bool:
        return self._allows(self.settings.resource_path, vhost=vhost, resource=kind, name=name, permission=right)

    def may_use_topic(self, vhost: str, exchange: str, right: TopicRight, key: str) -> bool:
        return self._allows(
            self.settings.topic_path, vhost=vhost, resource="topic", name=exchange, permission=right, routing_key=key
        )

    def has_tag(self, tag: str) -> bool:
        return tag in self.tags

    def _allows(self, url: str, **fields: str) -> bool:
        return self.answers.allows(
            question(url, {"username": self.user, **fields, "tags": " ".join(sorted(self.tags))})
        )


class HttpBackend:
    """Knows the users that the service knows; `clock` gives seconds. Wrong passwords count as guesses as elsewhere."""

    def __init__(
        self, settings: HttpAuthSettings, answers: HttpAnswers, guesses: Guesses, clock: Callable[[], float]
    ) -> None:  # fmt: skip
        self._settings = settings
        self._answers = answers
        self._guesses = guesses
        self._clock = clock

    def check(self, name: str, password: str, host: str, decided: Decided) -> None:
        address, now = address_of(host), self._clock()
        guesser = self._guesses.of(address, name, now)
        if not guesser.may_try(now):
            decided(guesser.refusal(now))
            return
        guesser.under_way += 1

        def answered(verdict: Verdict) -> None:
            guesser.under_way -= 1
            if verdict.allows:
                self._guesses.was_right(address, name, self._clock())
            elif not verdict.problem:
                self._was_wrong(address, name)
            self._decide(name, host, verdict, decided)

        asked = question(self._settings.user_path, {"username": name, "password": password})
        self._answers.ask(asked, answered)

    def recognize(self, name: str, host: str, decided: Decided) -> None:
        asked = question(self._settings.user_path, {"username": name})
        self._answers.ask(asked, lambda verdict: self._decide(name, host, verdict, decided))

    def renew(self, identity: Identity, secret: str, decided: Decided) -> None:
        """Accept any secret, as RabbitMQ does: passwords do not expire."""
        decided(identity)

    def _decide(self, name: str, host: str, verdict: Verdict, decided: Decided) -> None:
        if verdict.allows:
            decided(Identity(HttpRights(self._settings, self._answers, name, host, verdict.tags), self))
        else:
            decided(verdict.problem or REFUSED)

    def _was_wrong(self, address: str, name: str) -> None:
        if seconds := self._guesses.was_wrong(address, name, self._clock()):
            log.warning("passwords are guessed", user=name, address=address, refused_for=shown(seconds))
